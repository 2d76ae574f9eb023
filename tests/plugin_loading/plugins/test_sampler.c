/* A small complete sampler in plain C, and the ways to break it: CMakeLists.txt builds it once per
 * fault, each a -DTEST_... below. Whole, it commits the argmax from left to right. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "dllm_sdk/presets_abi.h"
#include "dllm_sdk/raw_logits_abi.h"
#include "dllm_sdk/sampler_abi.h"

#ifndef TEST_MAGIC
#define TEST_MAGIC DLLM_PLUGIN_MAGIC
#endif
#ifndef TEST_NOTE_BYTES
#define TEST_NOTE_BYTES sizeof(dllm_plugin_descriptor)
#endif
#ifndef TEST_STRUCT_SIZE
#define TEST_STRUCT_SIZE sizeof(dllm_plugin_descriptor)
#endif
#ifndef TEST_MAJOR
#define TEST_MAJOR DLLM_PLUGIN_ABI_MAJOR
#endif
#ifndef TEST_MINOR
#define TEST_MINOR DLLM_PLUGIN_ABI_MINOR
#endif
#ifndef TEST_KIND
#define TEST_KIND DLLM_PLUGIN_KIND_SAMPLER
#endif
#ifndef TEST_ID
#define TEST_ID "left_to_right"
#endif
#ifndef TEST_TAG
#define TEST_TAG ""
#endif
#ifndef TEST_TABLE_SIZE
#define TEST_TABLE_SIZE sizeof(dllm_sampler_v1)
#endif
#ifndef TEST_PLAN
#define TEST_PLAN make_plan
#endif
#ifndef TEST_INFO_SIZE
#define TEST_INFO_SIZE sizeof(dllm_option_info)
#endif
#ifndef TEST_OPTION_TYPE
#define TEST_OPTION_TYPE DLLM_OPTION_INTEGER
#endif
#ifndef TEST_OPTION_NAME
#define TEST_OPTION_NAME "at_once"
#endif
#ifdef TEST_OPTION_ESCAPES /* to a terminal: red */
#define TEST_OPTION_DEFAULT "\033[31m"
#endif
#ifdef TEST_OPTION_LONG
static char long_text[100000];
#define TEST_OPTION_DEFAULT long_text
#endif
#ifndef TEST_OPTION_DEFAULT
#define TEST_OPTION_DEFAULT "1"
#endif
#ifndef TEST_OPTION_MINIMUM
#define TEST_OPTION_MINIMUM 1
#endif

#ifndef TEST_OPTION_HELP
#define TEST_OPTION_HELP "positions a step"
#endif
#ifndef TEST_OPTION_CHOICES /* their number, and the list */
#define TEST_OPTION_CHOICES 0, NULL
#endif

#ifndef TEST_PRESET_NAME
#define TEST_PRESET_NAME "four"
#endif
#ifndef TEST_PRESET_OPTION
#define TEST_PRESET_OPTION "at_once"
#endif
#ifndef TEST_PRESET_VALUE
#define TEST_PRESET_VALUE "4"
#endif
#ifndef TEST_PRESETS_SIZE
#define TEST_PRESETS_SIZE sizeof(dllm_presets_v1)
#endif
#ifndef TEST_PRESET_VALUES
#define TEST_PRESET_VALUES preset_values
#endif
#ifndef TEST_PRESET_LIST
#define TEST_PRESET_LIST presets
#endif
#ifndef TEST_OPTIONS
#define TEST_OPTIONS options
#endif
#ifndef TEST_ALIAS_OPTION
#define TEST_ALIAS_OPTION "at_once"
#endif

#define TEST_NOTE(variable)                                                                        \
  __attribute__((section(DLLM_PLUGIN_NOTE_SECTION), used,                                          \
                 aligned(4))) DLLM_PLUGIN_NOTE_UNPADDED static const dllm_plugin_note variable = { \
      5u,                                                                                          \
      TEST_NOTE_BYTES,                                                                             \
      DLLM_PLUGIN_NOTE_TYPE,                                                                       \
      DLLM_PLUGIN_NOTE_OWNER,                                                                      \
      {TEST_MAGIC, TEST_STRUCT_SIZE, TEST_MAJOR, TEST_MINOR, TEST_KIND, 0u, TEST_ID, "1.2.3",      \
       TEST_TAG, "commits from left to right"}}
#ifndef TEST_NO_NOTE
TEST_NOTE(note);
#endif
#ifdef TEST_TWO_NOTES
TEST_NOTE(second_note);
#endif

/* How a test sees that code of this file ran: the loader calls this before anything else. */
__attribute__((constructor)) static void mark_loaded(void) {
  setenv("DLLM_TEST_CODE_RAN", TEST_ID, 1);
}

#ifdef TEST_MISSING_SYMBOL
void dllm_test_function_that_nobody_defines(void);
#endif

static const dllm_host_v1* host_table;

struct dllm_sampler {
  uint32_t at_once;
};

struct dllm_sampler_run {
  uint32_t at_once;
  uint32_t n_positions;
  uint32_t* positions;
  dllm_edit* edits;
};

static dllm_status create(const dllm_option_value* values, uint32_t n_values,
                          const dllm_model_facts* facts, dllm_sampler** out, dllm_error* error) {
  (void)facts;
  (void)error;
  if (n_values < 1) return DLLM_ERROR;
  dllm_sampler* sampler = malloc(sizeof *sampler);
  if (sampler == NULL) return DLLM_ERROR;
  sampler->at_once = (uint32_t)values[0].integer;
  host_table->log(host_table->context, DLLM_LOG_INFO, "left_to_right", "made\n\x1b[31m\xff");
  *out = sampler;
  return DLLM_OK;
}

static void destroy(dllm_sampler* sampler) { free(sampler); }

static dllm_status start(const dllm_sampler* sampler, const dllm_canvas* canvas, uint64_t seed,
                         dllm_sampler_run** out, dllm_error* error) {
  (void)seed;
  (void)error;
  dllm_sampler_run* run = malloc(sizeof *run);
  run->at_once = sampler->at_once;
  run->positions = malloc(sizeof(uint32_t) * (canvas->n_positions + 1));
  run->edits = malloc(sizeof(dllm_edit) * (canvas->n_positions + 1));
  *out = run;
  return DLLM_OK;
}

static void end(dllm_sampler_run* run) {
  free(run->positions);
  free(run->edits);
  free(run);
}

static dllm_status make_plan(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                             dllm_error* error) {
  (void)error;
  run->n_positions = 0;
  for (uint32_t i = 0; i < canvas->n_positions && run->n_positions < run->at_once; ++i) {
    if (canvas->state[i] == DLLM_POSITION_MASKED && canvas->editable[i]) {
      run->positions[run->n_positions++] = i;
    }
  }
  out->n_positions = run->n_positions;
  out->positions = run->positions;
  out->want = DLLM_STAT_ARGMAX;
  return DLLM_OK;
}

static dllm_status apply(dllm_sampler_run* run, const dllm_canvas* canvas, const dllm_stats* stats,
                         dllm_edits* out, dllm_error* error) {
  (void)canvas;
  (void)error;
  for (uint32_t i = 0; i < stats->n_rows; ++i) {
    run->edits[i].position = stats->positions[i];
    run->edits[i].token = stats->argmax[i];
    run->edits[i].kind = DLLM_EDIT_COMMIT;
    run->edits[i].confidence = 1.0f;
  }
  out->n_edits = stats->n_rows;
  out->edits = run->edits;
  out->status = stats->n_rows == 0 ? DLLM_RUN_FINISHED : DLLM_RUN_RUNNING;
  return DLLM_OK;
}

#define TEST_OPTION     \
  {TEST_INFO_SIZE,      \
   TEST_OPTION_TYPE,    \
   TEST_OPTION_NAME,    \
   TEST_OPTION_DEFAULT, \
   TEST_OPTION_HELP,    \
   TEST_OPTION_MINIMUM, \
   64,                  \
   0,                   \
   TEST_OPTION_CHOICES}

static const dllm_option_info options[] = {
    TEST_OPTION,
#ifdef TEST_OPTION_TWICE
    TEST_OPTION,
#endif
};

#ifdef TEST_EXTENSION_AT /* an address that is none */
static const void* get_extension(const char* name) {
  return strcmp(name, TEST_EXTENSION) == 0 ? (const void*)TEST_EXTENSION_AT : NULL;
}
#elif defined(TEST_PRESETS)
static const dllm_preset_value preset_values[] = {{TEST_PRESET_OPTION, TEST_PRESET_VALUE}};
static const dllm_preset presets[] = {{TEST_PRESET_NAME, "four at once", TEST_PRESET_VALUES, 1, 0}};
static const dllm_option_alias aliases[] = {{"speed", "fast", TEST_ALIAS_OPTION, "8"}};
static const dllm_presets_v1 preset_table = {TEST_PRESETS_SIZE, 1, TEST_PRESET_LIST, aliases, 1, 0};

static const void* get_extension(const char* name) {
  return strcmp(name, DLLM_EXTENSION_PRESETS) == 0 ? &preset_table : NULL;
}
#elif defined(TEST_RAW_LOGITS_SIZE)
static const dllm_raw_logits_v1 raw_logits = {TEST_RAW_LOGITS_SIZE, 0, NULL};

static const void* get_extension(const char* name) {
  return strcmp(name, DLLM_EXTENSION_RAW_LOGITS) == 0 ? &raw_logits : NULL;
}
#else
#define get_extension NULL
#endif

static const dllm_sampler_v1 table = {TEST_TABLE_SIZE,
                                      sizeof options / sizeof options[0],
                                      TEST_OPTIONS,
                                      create,
                                      destroy,
                                      start,
                                      end,
                                      TEST_PLAN,
                                      apply,
                                      get_extension};

#ifndef TEST_NO_ENTRY
const void* dllm_plugin_entry(const dllm_host_v1* host, dllm_error* error) {
  host_table = host;
  (void)error;
#ifdef TEST_OPTION_LONG
  memset(long_text, 'x', sizeof long_text); /* no terminator */
#endif
#ifdef TEST_MISSING_SYMBOL
  dllm_test_function_that_nobody_defines();
#endif
#ifdef TEST_START_FAILS
  strcpy(error->message, TEST_START_FAILS);
  return NULL;
#endif
#ifdef TEST_START_FILLS_BUFFER
  memset(error->message, 'x', sizeof error->message); /* no terminator */
  return NULL;
#endif
#ifdef TEST_TABLE_AT
  return (const void*)TEST_TABLE_AT;
#endif
  return &table;
}
#else
const void* dllm_test_unused(void);
const void* dllm_test_unused(void) {
  (void)host_table;
  return &table;
}
#endif

/* A sampler in C: commits the most likely token of the last open position, one a step. */
#include <stdlib.h>

#include "dllm_sdk/sampler_abi.h"

struct dllm_sampler_run {
  uint32_t position;
  dllm_edit edit;
};

static dllm_sampler* const no_state = (dllm_sampler*)&no_state; /* the rule has no options */

static dllm_status create(const dllm_option_value* values, uint32_t n_values,
                          const dllm_model_facts* facts, dllm_sampler** out, dllm_error* error) {
  (void)values, (void)n_values, (void)facts, (void)error;
  *out = no_state;
  return DLLM_OK;
}

static void destroy(dllm_sampler* sampler) { (void)sampler; }

static dllm_status start(const dllm_sampler* sampler, const dllm_canvas* canvas, uint64_t seed,
                         dllm_sampler_run** out, dllm_error* error) {
  (void)sampler, (void)canvas, (void)seed, (void)error;
  *out = calloc(1, sizeof **out);
  return *out == NULL ? DLLM_ERROR : DLLM_OK;
}

static void end(dllm_sampler_run* run) { free(run); }

static dllm_status plan(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                        dllm_error* error) {
  (void)error;
  for (uint32_t i = 0; i < canvas->n_positions; ++i) {
    if (canvas->state[i] != DLLM_POSITION_MASKED || !canvas->editable[i]) continue;
    run->position = i;
    out->positions = &run->position;
    out->n_positions = 1;
    out->want = DLLM_STAT_ARGMAX;
  }
  return DLLM_OK;
}

static dllm_status apply(dllm_sampler_run* run, const dllm_canvas* canvas, const dllm_stats* stats,
                         dllm_edits* out, dllm_error* error) {
  (void)canvas, (void)error;
  out->status = stats->n_rows == 0 ? DLLM_RUN_FINISHED : DLLM_RUN_RUNNING;
  if (stats->n_rows == 0) return DLLM_OK;
  run->edit.position = run->position;
  run->edit.token = stats->argmax[0];
  run->edit.kind = DLLM_EDIT_COMMIT;
  out->edits = &run->edit;
  out->n_edits = 1;
  return DLLM_OK;
}

DLLM_PLUGIN_NOTE(DLLM_PLUGIN_KIND_SAMPLER, "fixture_c", "1.0.0", "", "last open position first");

const void* dllm_plugin_entry(const dllm_host_v1* host, dllm_error* error) {
  static const dllm_sampler_v1 table = {
      sizeof(dllm_sampler_v1), 0, NULL, create, destroy, start, end, plan, apply, NULL};
  (void)host, (void)error;
  return &table;
}

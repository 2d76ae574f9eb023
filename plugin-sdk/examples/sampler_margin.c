/* The margin rule in plain C11: `per_step` positions a step, those where the likeliest token leads
 * the second by most. Shows the whole contract by hand: options as data, a message for every
 * refusal, buffers that live until the next call on their run. */
#include <stdio.h>
#include <stdlib.h>

#include "dllm_sdk/sampler_abi.h"

struct dllm_sampler {
  uint32_t per_step;
};

struct dllm_sampler_run {
  uint32_t per_step;
  uint32_t n_positions;
  uint32_t* positions; /* [canvas]: of the last plan */
  dllm_edit* edits;    /* [canvas]: of the last apply */
};

static dllm_status fail(dllm_error* error, const char* message) {
  snprintf(error->message, sizeof error->message, "%s", message);
  return DLLM_ERROR;
}

static dllm_status create(const dllm_option_value* values, uint32_t n_values,
                          const dllm_model_facts* facts, dllm_sampler** out, dllm_error* error) {
  (void)facts;
  if (n_values != 1) return fail(error, "the host gave another number of options than one");
  dllm_sampler* sampler = malloc(sizeof *sampler);
  if (sampler == NULL) return fail(error, "out of memory");
  sampler->per_step = (uint32_t)values[0].integer;
  *out = sampler;
  return DLLM_OK;
}

static void destroy(dllm_sampler* sampler) { free(sampler); }

static void end(dllm_sampler_run* run) {
  free(run->positions);
  free(run->edits);
  free(run);
}

static dllm_status start(const dllm_sampler* sampler, const dllm_canvas* canvas, uint64_t seed,
                         dllm_sampler_run** out, dllm_error* error) {
  (void)seed; /* nothing is drawn */
  dllm_sampler_run* run = calloc(1, sizeof *run);
  if (run == NULL) return fail(error, "out of memory");
  run->per_step = sampler->per_step;
  run->positions = malloc(canvas->n_positions * sizeof *run->positions);
  run->edits = malloc(canvas->n_positions * sizeof *run->edits);
  if (run->positions == NULL || run->edits == NULL) {
    end(run);
    return fail(error, "out of memory");
  }
  *out = run;
  return DLLM_OK;
}

/* Every masked position that may be written, and the two largest probabilities of each. */
static dllm_status plan(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                        dllm_error* error) {
  (void)error;
  run->n_positions = 0;
  for (uint32_t i = 0; i < canvas->n_positions; ++i) {
    if (canvas->state[i] == DLLM_POSITION_MASKED && canvas->editable[i]) {
      run->positions[run->n_positions++] = i;
    }
  }
  out->positions = run->positions;
  out->n_positions = run->n_positions;
  out->want = DLLM_STAT_ARGMAX | DLLM_STAT_TOP2;
  return DLLM_OK;
}

/* Largest margin first; equal ones from the left, so that a run repeats. */
static int by_margin(const void* left, const void* right) {
  const dllm_edit* a = left;
  const dllm_edit* b = right;
  if (a->confidence != b->confidence) return a->confidence < b->confidence ? 1 : -1;
  return a->position < b->position ? -1 : a->position > b->position;
}

static dllm_status apply(dllm_sampler_run* run, const dllm_canvas* canvas, const dllm_stats* stats,
                         dllm_edits* out, dllm_error* error) {
  (void)canvas;
  if (stats->n_rows != run->n_positions) return fail(error, "statistics of another plan");
  for (uint32_t row = 0; row < stats->n_rows; ++row) {
    const float margin = stats->top1_prob[row] - stats->top2_prob[row];
    if (!(margin >= 0) || stats->argmax[row] < 0)
      return fail(error, "a row has no likeliest token");
    run->edits[row] =
        (dllm_edit){stats->positions[row], stats->argmax[row], DLLM_EDIT_COMMIT, margin};
  }
  qsort(run->edits, stats->n_rows, sizeof *run->edits, by_margin);
  out->edits = run->edits;
  out->n_edits = stats->n_rows < run->per_step ? stats->n_rows : run->per_step;
  out->status = out->n_edits == stats->n_rows ? DLLM_RUN_FINISHED : DLLM_RUN_RUNNING;
  return DLLM_OK;
}

static const dllm_option_info options[] = {{sizeof(dllm_option_info), DLLM_OPTION_INTEGER,
                                            "per_step", "1", "positions committed a step", 1, 1e6,
                                            0, 0, NULL}};

DLLM_PLUGIN_NOTE(DLLM_PLUGIN_KIND_SAMPLER, "margin", "1.0.0", "", "clearest positions first, in C");

const void* dllm_plugin_entry(const dllm_host_v1* host, dllm_error* error) {
  static const dllm_sampler_v1 table = {
      sizeof(dllm_sampler_v1), 1, options, create, destroy, start, end, plan, apply, NULL};
  (void)host, (void)error;
  return &table;
}

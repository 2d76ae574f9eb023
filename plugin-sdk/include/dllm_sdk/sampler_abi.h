/* The C boundary of a sampler: a decoding rule for masked diffusion language models.
 *
 * A sampler is made once from validated options, immutable and shared. Each sequence gets a run.
 * Each step the host calls
 *     plan(run, canvas)          -> which positions to score, which statistics (changes nothing)
 *     apply(run, canvas, stats)  -> edits: commit, replace, remask; and whether the run is finished
 * The host checks every plan and edit, writes the canvas, and calls again. A plan that asks for no
 * position costs no forward: apply is called with n_rows = 0.
 *
 * Statistics are defined in dllm_stats below. Ownership: what the plugin returns by pointer lives
 * until the next call on the same run (tables and option infos: for ever); what the host passes
 * lives for the call. Thread tags: [any thread], [one thread per run] = never two calls on one run
 * at once.
 * Compiles as C11 and C++17, needs only the C standard library.
 */
#ifndef DLLM_SDK_SAMPLER_ABI_H
#define DLLM_SDK_SAMPLER_ABI_H

#include <stdint.h>

#include "dllm_sdk/plugin_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options. */

#define DLLM_OPTION_INTEGER 0u
#define DLLM_OPTION_NUMBER 1u
#define DLLM_OPTION_BOOLEAN 2u
#define DLLM_OPTION_CHOICE 3u
#define DLLM_OPTION_TEXT 4u

#define DLLM_OPTION_MINIMUM_EXCLUSIVE 1u
#define DLLM_OPTION_MAXIMUM_EXCLUSIVE 2u

typedef struct dllm_option_info {
  uint32_t struct_size;
  uint32_t type;
  const char* name;          /* [a-z0-9_]+ */
  const char* default_value; /* text form */
  const char* help;          /* one line */
  double minimum;            /* INTEGER, NUMBER; -INFINITY / INFINITY where unbounded */
  double maximum;
  uint32_t flags;
  uint32_t n_choices;
  const char* const* choices; /* CHOICE */
} dllm_option_info;

/* One value, already checked by the host against its info. Every option is passed, in the order of
 * the infos. */
typedef struct dllm_option_value {
  const char* name;
  const char* text;
  int64_t integer; /* INTEGER, BOOLEAN */
  double number;   /* NUMBER, INTEGER */
} dllm_option_value;

/* What a sampler is told. */

/* Facts of the model in use; ids are -1 where the vocabulary has none. */
typedef struct dllm_model_facts {
  uint32_t struct_size;
  uint32_t n_vocab;  /* rows of the head */
  uint32_t n_tokens; /* ids at or above have no token and are never produced by default */
  int32_t mask_id;
  int32_t bos_id;
  int32_t eos_id;
  int32_t eot_id;
  int32_t pad_id;
  uint32_t context_length;
  uint32_t trained_block_length; /* 0: none */
  uint32_t n_stop_ids;
  uint32_t reserved;
  const int32_t* stop_ids;
} dllm_model_facts;

/* dllm_canvas.state */
#define DLLM_POSITION_FIXED 0u     /* given: prompt */
#define DLLM_POSITION_MASKED 1u    /* the mask token, to be filled */
#define DLLM_POSITION_COMMITTED 2u /* filled by an edit */
#define DLLM_POSITION_REVOCABLE 3u /* filled, and meant to be revised */

/* One sequence as it stands. Masked positions may lie anywhere ("holes"). */
typedef struct dllm_canvas {
  uint32_t struct_size;
  uint32_t n_positions;
  const int32_t* ids;           /* [n_positions]; the mask id where masked */
  const uint8_t* state;         /* [n_positions] DLLM_POSITION_* */
  const uint8_t* editable;      /* [n_positions] 1 where edits are allowed */
  const uint32_t* block_starts; /* ascending; from the model's trained block length, else none */
  uint32_t n_block_starts;
  uint32_t step; /* plan/apply rounds finished so far, those without a forward included */
} dllm_canvas;

/* Plan. */

#define DLLM_STAT_SAMPLED (1u << 0)     /* sampled, sampled_prob */
#define DLLM_STAT_ARGMAX (1u << 1)      /* argmax */
#define DLLM_STAT_TOP2 (1u << 2)        /* top1_prob, top2_prob */
#define DLLM_STAT_ENTROPY (1u << 3)     /* entropy */
#define DLLM_STAT_LOG_SUM_EXP (1u << 4) /* log_sum_exp */
#define DLLM_STAT_PROB_OF (1u << 5)     /* prob_of */
#define DLLM_STAT_TOP_LIST (1u << 6)    /* top_ids, top_probs */

#define DLLM_DOMAIN_RAW 0u
#define DLLM_DOMAIN_FILTERED 1u

/* dllm_plan.flags */
#define DLLM_PLAN_ALLOW_ALL 1u /* do not suppress the mask id and the vocabulary tail */

/* The host zeroes the struct and sets struct_size, top_p = 1 and window = the whole canvas. */
typedef struct dllm_plan {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t n_positions;      /* 0: no forward is needed this step */
  uint32_t want;             /* DLLM_STAT_* */
  const uint32_t* positions; /* strictly ascending */
  uint32_t window_begin;     /* positions [begin, end) the forward may restrict itself to; */
  uint32_t window_end;       /* anything but the whole canvas is reserved and refused by name */
  uint32_t domain;           /* DLLM_DOMAIN_* */
  float temperature;         /* >= 0; 0: sampled = argmax */
  float top_p;               /* (0, 1]; 1: off */
  uint32_t top_k;            /* 0: off */
  float guidance_scale;      /* 0: none; else l = u + (scale + 1)(c - u), u from the canvas with all
                                fixed positions masked */
  uint32_t n_suppress_both;
  uint32_t n_suppress_confidence;
  uint32_t n_prob_of;
  uint32_t n_top_list;                /* at most 64 */
  const int32_t* suppress_both;       /* ids out of candidate and probability */
  const int32_t* suppress_confidence; /* ids out of the probability only */
  const int32_t* prob_of;             /* at most 64 ids, the same for every position */
} dllm_plan;

/* Statistics.
 * For one row with logits l over the vocabulary (after guidance):
 *   suppressed  suppress_both, and unless ALLOW_ALL the mask id and ids >= n_tokens: l = -inf
 *   tempered    z = l / temperature where temperature > 0, else z = l
 *   filtered    top_p < 1: sort by z (ties: lower id first), keep the shortest prefix whose softmax
 *               mass exceeds top_p; then top_k > 0: of those keep z >= the k-th largest (ties stay)
 *   sampled     temperature 0: argmax l; else argmax over kept ids of z - ln(-ln u), u the uniform
 *               draw (seed; step, position, id, DLLM_DRAW_CANDIDATE). Ties: lowest id
 *   D           domain RAW: softmax(l); FILTERED: softmax of z over kept ids; both without the ids
 *               in suppress_confidence, which have probability 0
 *   sampled_prob = D(sampled); top1_prob, top2_prob: the two largest D
 *   entropy = -sum D ln D (nats); log_sum_exp: of what D is the softmax of
 *   prob_of[j] = D(ids[j]); top list: largest D first
 * Arrays have n_rows entries in the order of the plan's positions; those not wanted are NULL. */
typedef struct dllm_stats {
  uint32_t struct_size;
  uint32_t n_rows;
  const uint32_t* positions;
  const int32_t* sampled;
  const float* sampled_prob;
  const int32_t* argmax;
  const float* top1_prob;
  const float* top2_prob;
  const float* entropy;
  const float* log_sum_exp;
  const float* prob_of;   /* [row * n_prob_of + j] */
  const int32_t* top_ids; /* [row * n_top_list + j] */
  const float* top_probs; /* likewise */
  uint32_t n_prob_of;     /* row stride of prob_of, at least the plan's n_prob_of */
  uint32_t n_top_list;    /* row stride of the top list, at least the plan's n_top_list */
} dllm_stats;

/* Edits. */

#define DLLM_EDIT_COMMIT 0u           /* masked -> committed */
#define DLLM_EDIT_REPLACE 1u          /* committed or revocable -> another token */
#define DLLM_EDIT_REMASK 2u           /* committed or revocable -> masked; token is ignored */
#define DLLM_EDIT_COMMIT_REVOCABLE 3u /* masked -> revocable */

typedef struct dllm_edit {
  uint32_t position;
  int32_t token;
  uint32_t kind;
  float confidence; /* what the rule ranked by, for display */
} dllm_edit;

#define DLLM_RUN_RUNNING 0u
#define DLLM_RUN_FINISHED 1u /* nothing is masked once the edits are written */

typedef struct dllm_edits {
  uint32_t struct_size;
  uint32_t status; /* DLLM_RUN_* */
  uint32_t n_edits;
  uint32_t reserved;
  const dllm_edit* edits; /* each position at most once */
} dllm_edits;

/* The table. */

typedef struct dllm_sampler dllm_sampler;         /* opaque: one configured rule */
typedef struct dllm_sampler_run dllm_sampler_run; /* opaque: one sequence's state */

typedef struct dllm_sampler_v1 {
  uint32_t struct_size;
  uint32_t n_options;
  const dllm_option_info* options; /* [n_options], lives for ever */

  /* [any thread] values has n_options entries in the order of options. Cross-option faults are
   * DLLM_BAD_OPTION. */
  dllm_status (*create)(const dllm_option_value* values, uint32_t n_values,
                        const dllm_model_facts* facts, dllm_sampler** out, dllm_error* error);
  /* [any thread] After its last run. */
  void (*destroy)(dllm_sampler* sampler);

  /* [any thread] Start of a sequence. Refuse here what does not fit the canvas (DLLM_BAD_OPTION):
   * the host asks before weights are loaded. */
  dllm_status (*start)(const dllm_sampler* sampler, const dllm_canvas* canvas, uint64_t seed,
                       dllm_sampler_run** out, dllm_error* error);
  /* [one thread per run] */
  void (*end)(dllm_sampler_run* run);
  /* [one thread per run] Repeatable: two calls in a row give the same plan. */
  dllm_status (*plan)(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                      dllm_error* error);
  /* [one thread per run] Exactly once after the last plan. */
  dllm_status (*apply)(dllm_sampler_run* run, const dllm_canvas* canvas, const dllm_stats* stats,
                       dllm_edits* out, dllm_error* error);
  /* [any thread] A plugin extension by name, or NULL. May itself be NULL. */
  const void* (*get_extension)(const char* name);
} dllm_sampler_v1;

#ifdef __cplusplus
}
#endif
#endif

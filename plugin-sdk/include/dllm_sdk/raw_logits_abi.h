/* Plugin extension "dllm.raw_logits/1" of samplers: the whole logits of the rows a plan asked for,
 * for rules that no statistic serves. They cost a second pass through the head and n_rows * n_vocab
 * floats from the device, so take them only where the statistics of sampler_abi.h do not do.
 *
 *     static const void* get_extension(const char* name) {
 *       return strcmp(name, DLLM_EXTENSION_RAW_LOGITS) == 0 ? &raw_logits : NULL;
 *     }
 *
 * A sampler that hands out this table is called once between plan and apply, after every forward
 * that had rows; statistics may be wanted beside it, or none. A host older than this extension never
 * calls it: apply then reports an error, or does without. A recorded trace holds no logits: such a
 * sampler cannot be replayed. Compiles as C11 and C++17, needs only the C standard library.
 */
#ifndef DLLM_SDK_RAW_LOGITS_ABI_H
#define DLLM_SDK_RAW_LOGITS_ABI_H

#include <stdint.h>

#include "dllm_sdk/sampler_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLLM_EXTENSION_RAW_LOGITS "dllm.raw_logits/1"

/* The l of dllm_stats: after guidance, before anything is suppressed, tempered or filtered. The
 * mask id and ids at or above n_tokens have a logit too; committing them is refused. Lives for the
 * call. */
typedef struct dllm_raw_logits {
  uint32_t struct_size;
  uint32_t n_rows;
  uint32_t n_vocab;
  uint32_t reserved;         /* 0 */
  const uint32_t* positions; /* [n_rows] those of the plan */
  const float* values;       /* [row * n_vocab + id] */
} dllm_raw_logits;

typedef struct dllm_raw_logits_v1 {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  /* [one thread per run] Copy or compute what apply needs. */
  dllm_status (*take)(dllm_sampler_run* run, const dllm_canvas* canvas,
                      const dllm_raw_logits* logits, dllm_error* error);
} dllm_raw_logits_v1;

#ifdef __cplusplus
}
#endif
#endif

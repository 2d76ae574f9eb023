/* Counter-based random numbers, the same on every device, thread count and batch.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 * key = seed; counter = (step, position, index / 4, purpose); the draw is word index % 4.
 * A draw depends on nothing else. Header only, C11 and C++17.
 */
#ifndef DLLM_SDK_PHILOX_H
#define DLLM_SDK_PHILOX_H

#include <stdint.h>

/* What stands before each function; a device compiler defines it first (__host__ __device__). */
#ifndef DLLM_SDK_FUNCTION
#define DLLM_SDK_FUNCTION
#endif

/* Purposes. `index` is the vocabulary id for CANDIDATE, else what the sampler defines. */
#define DLLM_DRAW_CANDIDATE 0u /* noise of a token, drawn by the backend */
#define DLLM_DRAW_TRANSFER 1u  /* whether or which positions are committed */
#define DLLM_DRAW_ORDER 2u     /* random order of positions */
#define DLLM_DRAW_SAMPLER 3u   /* free for samplers */

DLLM_SDK_FUNCTION static inline void dllm_philox4x32(uint64_t seed, uint32_t step,
                                                     uint32_t position, uint32_t block,
                                                     uint32_t purpose, uint32_t out[4]) {
  uint32_t c0 = step, c1 = position, c2 = block, c3 = purpose;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c0 = n0;
    c1 = (uint32_t)p1;
    c2 = n2;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* Uniform in (0, 1), never 0 or 1: (x + 0.5) / 2^32, exact in double. */
DLLM_SDK_FUNCTION static inline double dllm_philox_uniform(uint64_t seed, uint32_t step,
                                                           uint32_t position, uint32_t index,
                                                           uint32_t purpose) {
  uint32_t words[4];
  dllm_philox4x32(seed, step, position, index / 4u, purpose, words);
  return ((double)words[index % 4u] + 0.5) * (1.0 / 4294967296.0);
}

#endif

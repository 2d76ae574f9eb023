// Where attention over short sequences leaves its results: rows, and the output product's panel.
//
// A panel's row has a power of two that has to be known before its other heads are: a result is an
// average of values, so with u the largest power of all heads' values in the sequence it is below
// 2 u, up to rounding, and s = 2^-12 u keeps it near 2^13. Full precision then goes down to 2^-27
// of 2 u, as in a panel made from rows. (A panel of int8 has a step a row and head of 128
// dimensions, which is known here.)
//
// A product has to read the same of a sequence beside a long one, where its panel is made from rows
// (panels.cu): that panel's power of two may be less than s, not more, and finer steps below 2^-14
// s would show. So rows have no finer steps than 2^-24 s, which is what binary16 has there.
#pragma once

#include "attention_short.cuh"
#include "reduce.cuh"
#include "row_scale.cuh"

namespace dllm::cuda::short_attention {

#if defined(DLLM_WARPGROUPS)

constexpr int kPanelExponent = 12;  // of a row's bound in the panel

// Results in steps of 2^-24 s or more.
__device__ __forceinline__ void round_steps(Results& out, float scale) {
  const float offset = scale == scale ? 0.75f * scale : 0;  // in its binade a step of f32 is that
#pragma unroll
  for (float& value : out) value = __fsub_rn(__fadd_rn(value, offset), offset);
}

// This group's dimensions of a head's rows, from row `first` on.
__device__ __forceinline__ void store_rows(const AttentionArgs& a, std::uint32_t first,
                                           std::uint32_t n_rows, std::uint32_t head,
                                           const Results& out, const Thread& thread) {
  const int n_dims = static_cast<int>(a.head_dim) - 64 * thread.group - 2 * (thread.lane % 4);
  const bool has_all = a.head_dim % 64 == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t row = thread.row + 8 * half;
    if (row >= n_rows) continue;
    float* to = a.out.values + static_cast<std::uint64_t>(first + row) * a.out.n_cols +
                head * a.head_dim + 64 * thread.group + 2 * (thread.lane % 4);
    if (has_all) {
#pragma unroll
      for (int n = 0; n < 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n) = {out[4 * n + 2 * half], out[4 * n + 2 * half + 1]};
      continue;
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      if (8 * n < n_dims) to[8 * n] = out[4 * n + 2 * half];
      if (8 * n + 1 < n_dims) to[8 * n + 1] = out[4 * n + 2 * half + 1];
    }
  }
}

// This group's columns of a head's rows of the panel, from row `first` on, put together in shared
// memory as they lie in a block of the panel. Gives whether this thread started a copy from there.
template <int kDim>
__device__ __forceinline__ bool store_panel(const Panel& panel, std::uint32_t first,
                                            std::uint32_t n_rows, std::uint32_t head,
                                            const Results& out, float scale, std::uint32_t base,
                                            const Thread& thread) {
  const float inverse = inverse_of(scale);
  const std::uint32_t tile = base + Shared<kDim>::kTiles + thread.group * Shared<kDim>::kTile;
  const std::uint32_t row = 16 * thread.warp + thread.lane % 16;
  const std::uint32_t to = tile + row * 128 + ((first + row) % 8 ^ thread.lane / 16) * 16;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half2 both =
          __floats2half2_rn(out[8 * pair + 2 * i] * inverse, out[8 * pair + 2 * i + 1] * inverse);
      words[i] = *reinterpret_cast<const std::uint32_t*>(&both);
    }
    store_matrices(to ^ pair * 2 * 16, words);
  }
  fence_copies();
  thread.sync_group();
  if (head == 0 && thread.number < n_rows) panel.row_scale[first + thread.number] = scale;
  if (thread.number % kGroupThreads != 0) return false;
  const std::uint64_t block = head * (kDim / 64) + thread.group;
  store_bulk(panel.values + (block * panel.padded_rows + first) * kUnitCols, tile, n_rows * 128);
  return true;
}

// The same of int8, by both groups: a step is of the 128 dimensions of a row.
__device__ __forceinline__ bool store_int8_panel(const Int8Panel& panel, std::uint32_t first,
                                                 std::uint32_t n_rows, std::uint32_t head,
                                                 const Results& out, std::uint32_t base,
                                                 std::uint8_t* memory, const Thread& thread) {
  using Of = Shared<static_cast<int>(kInt8Cols)>;
  const auto larger = [](float x, float y) { return Larger{}(x, y); };
  float largest[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 32; ++i) largest[i / 2 % 2] = larger(fabsf(out[i]), largest[i / 2 % 2]);
  leave(largest, memory + Of::kRowMost, thread, larger);
  over_groups(largest, memory + Of::kRowMost, thread, larger);
  const std::uint32_t tile = base + Of::kTiles;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Int8Step step(largest[half]);
    const std::uint32_t row = thread.row + 8 * half;
    const std::uint32_t to = tile + row * 128 + (first + row) % 8 * 16 + thread.lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const unsigned codes = two_codes(int8_code(out[4 * n + 2 * half], step.inverse),
                                       int8_code(out[4 * n + 2 * half + 1], step.inverse));
      // Chunk 4 group + n / 2 of the row: 16 dimensions.
      asm volatile(
          "st.shared.b16 [%0], %1;\n" ::"r"((to ^ (4 * thread.group + n / 2) * 16) + n % 2 * 8),
          "h"(static_cast<std::uint16_t>(codes))
          : "memory");
    }
    if (thread.group == 0 && thread.lane % 4 == 0 && row < n_rows)
      panel.steps[panel.block_row(first + row, head * kInt8Cols)] = step.step;
  }
  fence_copies();
  __syncthreads();
  if (thread.number != 0) return false;
  store_bulk(panel.codes + panel.block_row(first, head * kInt8Cols) * kInt8Cols, tile,
             n_rows * kInt8Cols);
  return true;
}

#endif

}  // namespace dllm::cuda::short_attention

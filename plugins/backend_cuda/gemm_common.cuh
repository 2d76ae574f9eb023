// What the product kernels share: where token tiles begin, and storing results.
#pragma once

#include <cstdint>

#include "gemm_args.hpp"
#include "tensor_core.cuh"
#include "unpack.cuh"

// sm_90a: warpgroup products exist, and gemm_sm80.cu's kernels are left out.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define DLLM_WARPGROUPS 1
#endif

namespace dllm::cuda {

/// First panel row of token tile number `tile`: a multiple of 8, so that the swizzle's phase is
/// that of the tile in shared memory. The call's first row may be up to 7 rows further.
template <int kTokens>
__host__ __device__ __forceinline__ std::uint32_t first_tile_row(const Panel& panel,
                                                                 std::uint32_t tile) {
  return panel.first_row / 8 * 8 + tile * kTokens;
}
template <int kTokens>
std::uint32_t token_tiles(const Panel& panel) {
  return (panel.first_row % 8 + panel.n_rows + kTokens - 1) / kTokens;
}

// Results of a warp's 16 weight rows from row `first` of a block of the call: acc[4 n + i] is
// weight row lane / 4 + 8 (i / 2), input row 8 n + 2 (lane % 4) + i % 2. A part of a split product
// is stored as it is.
template <int kTokens>
__device__ __forceinline__ void store_results(const GemmArgs& a, const float (&acc)[kTokens / 2],
                                              std::uint32_t block, std::uint32_t first,
                                              std::uint32_t split, std::uint32_t tile_row,
                                              int lane) {
  const bool whole = a.partials == nullptr;
  const GemmPart& part = a.part_of(block);
  const std::uint32_t col = block * kBlockRows + first + lane / 4;
  const std::uint32_t weight_row = col - part.first_col;
  const bool adds = whole && a.store == Store::add;
  const std::uint64_t stride = whole ? part.stride : std::uint64_t{a.n_blocks} * kBlockRows;
  float* to = whole
                  ? part.to + weight_row
                  : a.partials + static_cast<std::uint64_t>(split) * a.panel.n_rows * stride + col;
  const bool exists[2] = {!whole || weight_row < part.weight.n_rows,
                          !whole || weight_row + 8 < part.weight.n_rows};
  float bias[2] = {0, 0};
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (whole && part.bias && exists[half]) bias[half] = part.bias[weight_row + 8 * half];
#pragma unroll
  for (int n = 0; n < kTokens / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t row = tile_row + 8 * n + 2 * (lane % 4) + i;  // of the panel
      const std::uint32_t token = row - a.panel.first_row;              // wraps where before it
      if (token >= a.panel.n_rows) continue;
      const float scale = whole ? part.weight.out_scale * a.panel.row_scale[row] : 1.0f;
      float* at = to + token * stride;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!exists[half]) continue;
        const float value = acc[4 * n + 2 * half + i] * scale + bias[half];
        at[8 * half] = adds ? at[8 * half] + value : value;
      }
    }
}

}  // namespace dllm::cuda

// Parts of the product kernel: filling a stage, storing results, choosing the tile.
#pragma once

#include <algorithm>

#include "cuda_check.hpp"
#include "gemm_args.hpp"
#include "unpack.cuh"

namespace dllm::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes to shared memory; zeros where `valid` is false.
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0));
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;\n"); }
template <int kPending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

// A stage holds kTokens rows of 128 bytes; 16-byte chunk c of row r lies at chunk c ^ (r % 8), so
// that the eight rows of an 8 x 8 matrix come from different banks.
template <int kTokens, int kThreads>
__device__ __forceinline__ void load_stage(const Panel& panel, std::uint32_t first_token,
                                           std::uint32_t unit, std::uint32_t stage) {
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * 8; i += kThreads) {
    const std::uint32_t row = i / 8;
    const std::uint32_t chunk = i % 8;
    const bool valid = first_token + row < panel.n_rows;
    const std::uint32_t token = valid ? first_token + row : 0;
    const __half* from = panel.values + static_cast<std::uint64_t>(token) * panel.stride +
                         unit * kUnitCols + chunk * 8;
    copy_async(stage + row * 128 + (chunk ^ (row % 8)) * 16, from, valid);
  }
}

// Results of a warp's 16 weight rows from `row`: acc[4 n + i] is weight row lane / 4 + 8 (i / 2),
// input row 8 n + 2 (lane % 4) + i % 2. A part of a split product is stored as it is.
template <int kTokens>
__device__ void store_results(const GemmArgs& a, const float (&acc)[kTokens / 2], std::uint32_t row,
                              std::uint32_t first_token, int lane) {
  const bool whole = a.partials == nullptr;
  const bool adds = whole && a.store == Store::add;
  const std::uint64_t stride = whole ? a.stride : a.weight.n_rows;
  const std::uint32_t first_row = row + lane / 4;
  float* to =
      whole ? a.to : a.partials + static_cast<std::uint64_t>(blockIdx.z) * a.panel.n_rows * stride;
  const bool exists[2] = {first_row < a.weight.n_rows, first_row + 8 < a.weight.n_rows};
  float bias[2] = {0, 0};
  for (int half = 0; half < 2; ++half)
    if (whole && a.bias && exists[half]) bias[half] = a.bias[first_row + 8 * half];
#pragma unroll
  for (int n = 0; n < kTokens / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t token = first_token + 8 * n + 2 * (lane % 4) + i;
      if (token >= a.panel.n_rows) continue;
      const float scale = whole ? a.weight.out_scale * a.panel.row_scale[token] : 1.0f;
      float* at = to + token * stride + first_row;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!exists[half]) continue;
        const float value = acc[4 * n + 2 * half + i] * scale + bias[half];
        at[8 * half] = adds ? at[8 * half] + value : value;
      }
    }
}

inline std::uint32_t padded(std::uint32_t n, std::uint32_t tile) {
  return (n + tile - 1) / tile * tile;
}

/// Calls launch.template run<form, tokens>() for the weight's form and the tile of input rows that
/// leaves the fewest places empty.
template <Form kForm, typename Launch>
void with_tokens(const GemmArgs& args, const Launch& launch) {
  const std::uint32_t n = args.panel.n_rows;
  if (n <= 32) return launch.template run<kForm, 32>();
  if (padded(n, 96) < padded(n, 160)) return launch.template run<kForm, 96>();
  launch.template run<kForm, 160>();
}

template <typename Launch>
void with_form(const GemmArgs& args, const Launch& launch) {
  switch (args.weight.form) {
    case Form::q4:
      return with_tokens<Form::q4>(args, launch);
    case Form::q4_min:
      return with_tokens<Form::q4_min>(args, launch);
    case Form::q4_half:
      return with_tokens<Form::q4_half>(args, launch);
    case Form::q4_half_min:
      return with_tokens<Form::q4_half_min>(args, launch);
    case Form::q5:
      return with_tokens<Form::q5>(args, launch);
    case Form::q5_min:
      return with_tokens<Form::q5_min>(args, launch);
    case Form::q6_half:
      return with_tokens<Form::q6_half>(args, launch);
    case Form::q8:
      return with_tokens<Form::q8>(args, launch);
    case Form::f16:
      return with_tokens<Form::f16>(args, launch);
  }
}

}  // namespace dllm::cuda

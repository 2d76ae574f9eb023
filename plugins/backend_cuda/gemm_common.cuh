// What the product kernels share: where token tiles begin, and storing results.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gemm_args.hpp"
#include "tensor_core.cuh"
#include "unpack.cuh"

// sm_90a: warpgroup products exist, and gemm_sm80.cu's kernels are left out.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define DLLM_WARPGROUPS 1
#endif

namespace dllm::cuda {

/// Calls `with` with the form as a type.
template <typename With>
__host__ __device__ __forceinline__ void with_form(Form form, const With& with) {
  switch (form) {
    case Form::q4:
      return with(std::integral_constant<Form, Form::q4>{});
    case Form::q4_min:
      return with(std::integral_constant<Form, Form::q4_min>{});
    case Form::q4_half:
      return with(std::integral_constant<Form, Form::q4_half>{});
    case Form::q4_half_min:
      return with(std::integral_constant<Form, Form::q4_half_min>{});
    case Form::q5:
      return with(std::integral_constant<Form, Form::q5>{});
    case Form::q5_min:
      return with(std::integral_constant<Form, Form::q5_min>{});
    case Form::q6_half:
      return with(std::integral_constant<Form, Form::q6_half>{});
    case Form::q8:
      return with(std::integral_constant<Form, Form::q8>{});
    case Form::f16:
      return with(std::integral_constant<Form, Form::f16>{});
  }
}

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

/// The results of a thread: of a warp's 16 weight rows from row `first` of a part, rows lane / 4
/// and lane / 4 + 8. Accumulator 4 n + i is row i / 2 of the two, input row 8 n + 2 (lane % 4) + i
/// % 2 of the tile.
class ResultRows {
 public:
  __device__ __forceinline__ ResultRows(const GemmArgs& a, const GemmPart& part,
                                        std::uint32_t first, std::uint32_t tile_row, int lane)
      : stride_(part.stride), scale_(part.weight.out_scale), adds_(a.store == Store::add) {
    const std::uint32_t row = first + lane / 4;
    // Rows before the call's first wrap around and are then not below n_tokens_.
    first_token_ = tile_row + 2 * (lane % 4) - a.panel.first_row;
    n_tokens_ = a.panel.n_rows;
    to_ = part.to +
          static_cast<std::int64_t>(static_cast<std::int32_t>(first_token_)) *
              static_cast<std::int64_t>(stride_) +
          row;
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      exists_[half] = row + 8 * half < part.weight.n_rows;
      bias_[half] = part.bias && exists_[half] ? part.bias[row + 8 * half] : 0;
    }
  }

  /// What results of accumulators 4 n to 4 n + 3 are added to. Reads wait for stores before them,
  /// so those of several n come first.
  __device__ __forceinline__ float4 there(std::uint32_t n) const {
    float values[4] = {0, 0, 0, 0};
    if (adds_) {
      const float* at = to_ + 8 * n * stride_;
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)
        if (exists(n, i)) values[i] = at[(i % 2) * stride_ + 8 * (i / 2)];
    }
    return {values[0], values[1], values[2], values[3]};
  }

  /// Finishes and stores accumulators 4 n to 4 n + 3; `scales`: of the two input rows.
  __device__ __forceinline__ void store(std::uint32_t n, const float4& sums, const float2& scales,
                                        const float4& there) const {
    const float values[4] = {sums.x, sums.y, sums.z, sums.w};
    const float before[4] = {there.x, there.y, there.z, there.w};
    float* at = to_ + 8 * n * stride_;
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const float value = values[i] * (scale_ * (i % 2 == 0 ? scales.x : scales.y)) + bias_[i / 2];
      if (exists(n, i)) at[(i % 2) * stride_ + 8 * (i / 2)] = adds_ ? before[i] + value : value;
    }
  }

 private:
  __device__ __forceinline__ bool exists(std::uint32_t n, std::uint32_t i) const {
    return exists_[i / 2] && first_token_ + 8 * n + i % 2 < n_tokens_;
  }

  float* to_;  // of the first of the tile's rows, which may not exist
  std::uint64_t stride_;
  float scale_;
  float bias_[2];
  std::uint32_t first_token_;
  std::uint32_t n_tokens_;
  bool adds_;
  bool exists_[2];
};

template <int kCount>
__device__ __forceinline__ float4 four(const float (&acc)[kCount], int n) {
  return {acc[4 * n], acc[4 * n + 1], acc[4 * n + 2], acc[4 * n + 3]};
}
__device__ __forceinline__ float4 operator+(const float4& a, const float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

}  // namespace dllm::cuda

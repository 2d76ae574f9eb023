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
    case Form::q8:
      return with(std::integral_constant<Form, Form::q8>{});
    case Form::q8_half:
      return with(std::integral_constant<Form, Form::q8_half>{});
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

// Reads and writes that only some lanes do, without a branch: what comes after the products runs
// once, and instructions that run once cost far more than those of a loop.
__device__ __forceinline__ float load_below(std::uint32_t index, std::uint32_t limit,
                                            const float* from) {
  float value;
  asm volatile(
      "{\n.reg .pred below;\nsetp.lt.u32 below, %1, %2;\nmov.f32 %0, 0f00000000;\n"
      "@below ld.global.f32 %0, [%3];\n}\n"
      : "=f"(value)
      : "r"(index), "r"(limit), "l"(from)
      : "memory");
  return value;
}
__device__ __forceinline__ void store_below(std::uint32_t index, std::uint32_t limit, float* to,
                                            float value) {
  asm volatile(
      "{\n.reg .pred below;\nsetp.lt.u32 below, %0, %1;\n@below st.global.f32 [%2], %3;\n}\n" ::"r"(
          index),
      "r"(limit), "l"(to), "f"(value)
      : "memory");
}

/// The results of a thread: of a warp's 16 weight rows from row `first` of a part, rows lane / 4
/// and lane / 4 + 8. Accumulator 4 n + i is row i / 2 of the two, input row 8 n + 2 (lane % 4) + i
/// % 2 of the tile.
class ResultRows {
 public:
  __device__ __forceinline__ ResultRows(const GemmArgs& a, const GemmPart& part,
                                        std::uint32_t first, std::uint32_t tile_row, int lane)
      : row_bytes_(static_cast<std::uint32_t>(part.stride * sizeof(float))),
        scale_(part.weight.out_scale),
        adds_(a.store == Store::add) {
    const std::uint32_t row = first + lane / 4;
    // Rows before the call's first wrap around and are then not below any limit.
    first_token_ = tile_row + 2 * (lane % 4) - a.panel.first_row;
    to_ =
        reinterpret_cast<char*>(part.to +
                                static_cast<std::int64_t>(static_cast<std::int32_t>(first_token_)) *
                                    static_cast<std::int64_t>(part.stride) +
                                row);
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t exists = row + 8 * half < part.weight.n_rows ? 1 : 0;
      n_tokens_[half] = exists * a.panel.n_rows;
      bias_[half] = 0;
    }
    if (!part.bias) return;
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half)
      bias_[half] = load_below(row + 8 * half, part.weight.n_rows, part.bias + row + 8 * half);
  }

  /// Whether results are added to what is there.
  __device__ __forceinline__ bool adds() const { return adds_; }

  /// What results of accumulators 4 n to 4 n + 3 are added to. Reads wait for stores before them,
  /// so those of several n come first.
  __device__ __forceinline__ float4 there(std::uint32_t n) const {
    if (!adds_) return {};
    const auto value = [&](std::uint32_t i) {
      return load_below(token(n, i), n_tokens_[i / 2], place(n, i));
    };
    return {value(0), value(1), value(2), value(3)};
  }

  /// Finishes and stores accumulators 4 n to 4 n + 3; `scales`: of the two input rows.
  __device__ __forceinline__ void store(std::uint32_t n, const float4& sums, const float2& scales,
                                        const float4& there) const {
    const float values[4] = {sums.x, sums.y, sums.z, sums.w};
    const float before[4] = {there.x, there.y, there.z, there.w};
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const float value = values[i] * (scale_ * (i % 2 == 0 ? scales.x : scales.y)) + bias_[i / 2];
      store_below(token(n, i), n_tokens_[i / 2], place(n, i), before[i] + value);
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t token(std::uint32_t n, std::uint32_t i) const {
    return first_token_ + 8 * n + i % 2;
  }
  __device__ __forceinline__ float* place(std::uint32_t n, std::uint32_t i) const {
    return reinterpret_cast<float*>(to_ + std::uint64_t{row_bytes_} * (8 * n + i % 2)) +
           8 * (i / 2);
  }

  char* to_;  // of the first of the tile's rows, which may not exist
  std::uint32_t row_bytes_;
  float scale_;
  float bias_[2];
  std::uint32_t first_token_;
  std::uint32_t n_tokens_[2];  // of each of the two weight rows; 0 where it does not exist
  bool adds_;
};

template <int kCount>
__device__ __forceinline__ float4 four(const float (&acc)[kCount], int n) {
  return {acc[4 * n], acc[4 * n + 1], acc[4 * n + 2], acc[4 * n + 3]};
}
}  // namespace dllm::cuda

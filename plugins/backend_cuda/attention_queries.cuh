// What attention's kernels on tensor cores share: tiles of keys and values on their way to shared
// memory, and what a warp knows of its queries. attention.cu says how it works.
#pragma once

#include <cstdint>

#include "attention.hpp"
#include "attention_products.cuh"

namespace dllm::cuda {

constexpr int kGroupWarps = 4;
constexpr int kGroupThreads = 32 * kGroupWarps;
constexpr int kGroupQueries = 16 * kGroupWarps;
constexpr int kStages = 2;
constexpr float kLog2E = 1.44269504f;

struct AttentionArgs {
  HeadRows q, k, v;
  Rows out;
  Panel panel;     // of `out`, too, where all spans are short; no values: not wanted
  Int8Panel int8;  // likewise
  SpanList spans;
  std::uint32_t head_dim;
  float scale;      // of scores, for powers of 2
  bool skip_short;  // short spans are another kernel's
};

struct Place {
  AttentionSpan span;
  std::uint32_t first;  // query of the span
  bool found;
};

// Block numbers count through the spans' query blocks; the grid may have more than there are.
__device__ __forceinline__ Place find_place(const AttentionArgs& a, std::uint32_t n_queries) {
  std::uint32_t block = blockIdx.x;
  for (std::uint32_t s = 0; s < a.spans.n; ++s) {
    const AttentionSpan span = a.spans.list[s];
    const std::uint32_t n = (span.q_count + n_queries - 1) / n_queries;
    if (block < n) return {span, block * n_queries, true};
    block -= n;
  }
  return {{}, 0, false};
}

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Over the four lanes that hold a row of a product's result.
template <typename Op>
__device__ __forceinline__ float over_row(float value, Op op) {
  value = op(value, __shfl_xor_sync(0xFFFFFFFFu, value, 1));
  return op(value, __shfl_xor_sync(0xFFFFFFFFu, value, 2));
}

// A thread's part of every tile that kThreads bring together: which 16-byte chunks of keys and
// values it brings, and one or two of the tile's powers of two.
template <typename Products, int kDim, int kKeys, int kThreads>
class TileLoader {
 public:
  __device__ __forceinline__ TileLoader(const AttentionArgs& a, std::uint32_t kv_head,
                                        const AttentionSpan& span)
      : n_keys_(span.kv_count) {
    const std::uint64_t row = static_cast<std::uint64_t>(kv_head) * a.k.n_rows + span.kv_begin;
    k_ = a.k.values + row * kDim;
    v_ = a.v.values + row * kDim;
    scale_ = (thread() < kKeys ? a.k.scale : a.v.scale) + row + thread() % kKeys;
  }

  // Keys [first, first + kKeys) to a stage; zeros beyond the sequence's end.
  __device__ __forceinline__ void load(std::uint32_t first, std::uint32_t stage) const {
    if (first + kKeys <= n_keys_) {
      copy<true>(first, stage);
    } else {
      copy<false>(first, stage);
    }
  }

 private:
  static constexpr int kChunks = kDim / 8;  // of a row
  static_assert(kKeys * kChunks % kThreads == 0 && 2 * kKeys <= kThreads);

  static __device__ __forceinline__ int thread() {
    return static_cast<int>(threadIdx.x) % kThreads;
  }

  template <bool kFull>
  __device__ __forceinline__ void copy(std::uint32_t first, std::uint32_t stage) const {
    const int thread = this->thread();
    const __half* k = k_ + static_cast<std::uint64_t>(first) * kDim;
    const __half* v = v_ + static_cast<std::uint64_t>(first) * kDim;
#pragma unroll
    for (int j = 0; j < kKeys * kChunks / kThreads; ++j) {
      // Where a row's chunks divide the threads, a thread keeps its chunk, and its rows are a
      // multiple of 8 apart.
      constexpr bool kKeeps = kThreads % (8 * kChunks) == 0;
      const int key =
          kKeeps ? thread / kChunks + kThreads / kChunks * j : (thread + kThreads * j) / kChunks;
      const int chunk = kKeeps ? thread % kChunks : (thread + kThreads * j) % kChunks;
      const bool valid = kFull || first + key < n_keys_;
      const int from = valid ? key * kDim + chunk * 8 : 0;
      const std::uint32_t to = stage + (kKeeps ? Products::place(thread / kChunks, chunk) +
                                                     Products::further(kThreads / kChunks * j)
                                               : Products::place(key, chunk));
      copy_async(to, k + from, valid);
      copy_async(to + Products::kTileBytes, v + from, valid);
    }
    if (thread >= 2 * kKeys) return;
    const bool valid = kFull || first + thread % kKeys < n_keys_;
    copy_async_word(stage + 2 * Products::kTileBytes + thread * static_cast<int>(sizeof(float)),
                    valid ? scale_ + first : scale_ - thread % kKeys, valid);
  }

  const __half* k_;
  const __half* v_;
  const float* scale_;
  std::uint32_t n_keys_;
};

// What a warp knows of its 16 queries; a lane's rows are lane / 4 and lane / 4 + 8.
template <typename Products, int kDim, int kKeys>
struct Queries {
  static constexpr bool kHeld = kDim <= 128;  // operands stay in registers
  static constexpr int kSteps = kDim / 16;

  const __half* row[2];
  bool exists[2];
  float factor[2];  // of scores
  std::uint32_t operands[kHeld ? kSteps : 1][4];
  float acc[kDim / 2] = {};  // acc[4 n + i]: row i / 2, dimension 8 n + 2 (lane % 4) + i % 2
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this lane's keys
  float unit = 0;         // of acc

  __device__ __forceinline__ void operand(int step, int lane, std::uint32_t q[4]) const {
#pragma unroll
    for (int p = 0; p < 4; ++p)
      q[p] = exists[p % 2] ? __ldg(reinterpret_cast<const unsigned*>(row[p % 2] + 16 * step +
                                                                     2 * (lane % 4) + 8 * (p / 2)))
                           : 0;
  }

  __device__ __forceinline__ void load(const AttentionArgs& a, const Place& place,
                                       std::uint32_t head, int warp, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t query = place.first + 16 * warp + lane / 4 + 8 * half;
      exists[half] = query < place.span.q_count;
      const std::uint64_t at = static_cast<std::uint64_t>(head) * a.q.n_rows + place.span.q_begin +
                               (exists[half] ? query : 0);
      row[half] = a.q.values + at * kDim;
      factor[half] = a.q.scale[at] * a.scale;
    }
    if constexpr (kHeld) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) operand(step, lane, operands[step]);
    }
  }

  // Keys beyond the sequence's end.
  static __device__ __forceinline__ void hide(float (&s)[kKeys / 2], std::uint32_t n_keys,
                                              int lane) {
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i)
      if (8 * (i / 4) + 2 * (lane % 4) + i % 2 >= n_keys) s[i] = -INFINITY;
  }

  // One tile of which `n_keys` exist.
  __device__ __forceinline__ void visit(std::uint32_t stage, const float* scales,
                                        std::uint32_t n_keys, int lane) {
    const float* key_scale = scales;
    const float* value_scale = scales + kKeys;
    float s[kKeys / 2];
    Products::scores(
        stage, lane,
        [&](int step, std::uint32_t q[4]) {
          if constexpr (kHeld) {
#pragma unroll
            for (int p = 0; p < 4; ++p) q[p] = operands[step][p];
          } else {
            operand(step, lane, q);
          }
        },
        s);
    float most[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const float2 scale = *reinterpret_cast<const float2*>(key_scale + 8 * n + 2 * (lane % 4));
#pragma unroll
      for (int i = 0; i < 4; ++i) s[4 * n + i] *= (i % 2 == 0 ? scale.x : scale.y) * factor[i / 2];
    }
    if (n_keys < kKeys) hide(s, n_keys, lane);
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], s[i]);
    const auto larger = [](float x, float y) { return fmaxf(x, y); };
    float largest_scale = unit;
#pragma unroll
    for (int i = 0; i < kKeys / 32; ++i)
      largest_scale = fmaxf(largest_scale, value_scale[lane + 32 * i]);
    for (int offset = 16; offset > 0; offset /= 2)
      largest_scale = fmaxf(largest_scale, __shfl_xor_sync(0xFFFFFFFFu, largest_scale, offset));
    const float per_unit = 1.0f / largest_scale;
    const float change_of_unit = unit * per_unit;
    unit = largest_scale;
    float decay[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = over_row(most[half], larger);
      decay[half] = power_of_two(top[half] - most[half]);
      top[half] = most[half];
      sum[half] *= decay[half];
      decay[half] *= change_of_unit;
    }
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) acc[i] *= decay[i / 2 % 2];

    std::uint32_t weights[kKeys / 16][4];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const float2 scale = *reinterpret_cast<const float2*>(value_scale + 8 * n + 2 * (lane % 4));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x = power_of_two(s[4 * n + 2 * half] - top[half]);
        const float y = power_of_two(s[4 * n + 2 * half + 1] - top[half]);
        sum[half] += x + y;
        const __half2 both = __floats2half2_rn(x * (scale.x * per_unit), y * (scale.y * per_unit));
        weights[n / 2][2 * (n % 2) + half] = *reinterpret_cast<const std::uint32_t*>(&both);
      }
    }
    Products::add_values(stage + Products::kTileBytes, lane, weights, acc);
  }

  __device__ __forceinline__ void store(const AttentionArgs& a, const Place& place,
                                        std::uint32_t head, int warp, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = over_row(sum[half], [](float x, float y) { return x + y; });
      if (!exists[half]) continue;
      const float factor_out = place.span.kv_count == 0 ? 0.0f : unit / total;
      const std::uint32_t query =
          place.span.q_begin + place.first + 16 * warp + lane / 4 + 8 * half;
      float* to =
          a.out.values + static_cast<std::uint64_t>(query) * a.out.n_cols + head * a.head_dim;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const std::uint32_t d = 8 * n + 2 * (lane % 4);
        const float2 both = {acc[4 * n + 2 * half] * factor_out,
                             acc[4 * n + 2 * half + 1] * factor_out};
        if (a.head_dim % 2 == 0) {
          if (d < a.head_dim) *reinterpret_cast<float2*>(to + d) = both;
        } else {
          if (d < a.head_dim) to[d] = both.x;
          if (d + 1 < a.head_dim) to[d + 1] = both.y;
        }
      }
    }
  }
};

template <typename Products, int kKeys>
struct Stages {
  static constexpr int kStageBytes =
      (2 * Products::kTileBytes + 2 * kKeys * static_cast<int>(sizeof(float)) +
       Products::kAlignment - 1) /
      Products::kAlignment * Products::kAlignment;
  static constexpr int kBytes = kStages * kStageBytes + Products::kAlignment - 16;
};

/// Where spans are short: attention_short.cu. Heads of 64 or 128 dimensions.
void launch_short_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace dllm::cuda

// What a tile of the int8 product is made of: its ring of stages in shared memory, and the sums of
// a consumer (gemm_int8_sm90.cu).
#pragma once

#include <cstdint>

#include "async_copy.cuh"
#include "gemm_tiles.cuh"
#include "integer_wgmma.cuh"
#include "packed.hpp"

namespace dllm::cuda::int8 {

constexpr int kConsumers = 2;  // of a thread block; each takes kPer blocks of 64 weight rows
constexpr std::uint32_t kMostStages = 8;
constexpr std::uint32_t kAlignment = 1024;  // of a stage: eight swizzled rows
constexpr std::uint32_t kSharedBytes = 227 * 1024;
constexpr std::uint32_t kBarrierBytes = 2 * kMostStages * 8;
constexpr std::uint32_t kBlockBytes = kBlockRows * kInt8Cols;
constexpr std::uint32_t kBlockStepBytes = kBlockRows * 4;
constexpr std::uint32_t kGatedCols = kBlockRows / 2;  // of a consumer in gated calls

template <int kTokens, int kPer>
struct Sizes {
  static constexpr int kBlocks = kConsumers * kPer;
  static constexpr std::uint32_t kPanelBytes = kTokens * kInt8Cols;
  static constexpr std::uint32_t kStageBytes = kPanelBytes + kBlocks * kBlockBytes;
  static constexpr std::uint32_t kStepBytes = kTokens * 4 + kBlocks * kBlockStepBytes;
  static constexpr std::uint32_t kBroughtBytes = kStageBytes + kStepBytes;
  /// Barriers, ones, steps of all stages; then the stages.
  static constexpr std::uint32_t kHeaderBytes =
      (kBarrierBytes + kTokens * 4 + kMostStages * kStepBytes + kAlignment - 1) / kAlignment *
      kAlignment;
};

#if defined(DLLM_WARPGROUPS)

// The ring: `full` completes when a stage's bytes are there, `empty` when every consuming warp
// has let go of it.
template <int kTokens, int kPer>
struct Ring {
  using Size = Sizes<kTokens, kPer>;
  std::uint32_t base;
  std::uint32_t n_stages;
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ std::uint32_t full(std::uint32_t s) const { return base + 8 * s; }
  __device__ std::uint32_t empty(std::uint32_t s) const { return base + 8 * (kMostStages + s); }
  /// kTokens floats of 1: scales of input rows, which int8 panels do not have.
  __device__ std::uint32_t ones() const { return base + kBarrierBytes; }
  /// Steps of the tile's input rows, then of each block's weight rows.
  __device__ std::uint32_t steps() const {
    return base + kBarrierBytes + kTokens * 4 + stage * Size::kStepBytes;
  }
  __device__ std::uint32_t weight_steps(std::uint32_t block) const {
    return steps() + kTokens * 4 + block * kBlockStepBytes;
  }
  __device__ std::uint32_t panel() const {
    return base + Size::kHeaderBytes + stage * Size::kStageBytes;
  }
  __device__ std::uint32_t weights(std::uint32_t block) const {
    return panel() + Size::kPanelBytes + block * kBlockBytes;
  }
  __device__ void advance() {
    if (++stage == n_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ __forceinline__ float read_float(std::uint32_t at) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(value) : "r"(at) : "memory");
  return value;
}

// The consumers take turns: while one's sums of a stage are brought into its f32 sums, the products
// of the other run. Left alone they would wait for the same stage, multiply together and then both
// leave the tensor cores idle. Barriers 3 and 4 say whose turn it is (0: the block, 1 and 2:
// consumer_sync()). Both multiply equally often, so every turn that is given is taken, and one that
// waits in meet() has given its last turn of the tile.
__device__ __forceinline__ void await_turn(std::uint32_t consumer) {
  asm volatile("bar.sync %0, 256;\n" ::"r"(3 + consumer) : "memory");
}
__device__ __forceinline__ void give_turn(std::uint32_t to) {
  asm volatile("bar.arrive %0, 256;\n" ::"r"(3 + to) : "memory");
}
__device__ __forceinline__ void products_wait_but_one() {
  asm volatile("wgmma.wait_group.sync.aligned 1;\n" ::: "memory");
}

// acc = products of the ring's next n blocks.
template <int kTokens, int kPer>
__device__ __forceinline__ void accumulate(Ring<kTokens, kPer>& ring, std::uint32_t n,
                                           std::uint32_t consumer, int warp, int lane,
                                           float (&acc)[kPer][kTokens / 2]) {
#pragma unroll
  for (auto& of_block : acc)
#pragma unroll
    for (float& each : of_block) each = 0;
  for (std::uint32_t u = 0; u < n; ++u) {
    barrier_wait(ring.full(ring.stage), ring.parity);
#pragma unroll
    for (int p = 0; p < kPer; ++p) {
      const std::uint32_t block = consumer * kPer + p;
      std::int32_t sums[kTokens / 2];
      await_turn(consumer);
      products_fence();
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        IntegerProduct<kTokens>::run(sums, swizzled_operand(ring.weights(block) + 32 * j),
                                     swizzled_operand(ring.panel() + 32 * j), j > 0);
        products_commit();
      }
      const std::uint32_t of_rows = ring.weight_steps(block) + (warp * 16 + lane / 4) * 4;
      const float weight_step[2] = {read_float(of_rows), read_float(of_rows + 32)};
      products_wait_but_one();
      give_turn(consumer ^ 1);  // the other's follow without a gap
      products_wait();
#pragma unroll
      for (int m = 0; m < kTokens / 8; ++m) {
        const float2 step = scales_of(ring.steps(), m);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float product = static_cast<float>(sums[4 * m + i]) * weight_step[i / 2];
          acc[p][4 * m + i] = fmaf(product, i % 2 == 0 ? step.x : step.y, acc[p][4 * m + i]);
        }
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.empty(ring.stage));
    ring.advance();
  }
}

// The same of all n blocks, whose parts of `part` blocks are added in their order.
template <int kTokens>
__device__ __forceinline__ void accumulate_parts(Ring<kTokens, 1>& ring, std::uint32_t n,
                                                 std::uint32_t part, std::uint32_t consumer,
                                                 int warp, int lane, float (&acc)[kTokens / 2]) {
  float sums[1][kTokens / 2];
#pragma unroll
  for (float& each : acc) each = 0;  // 0 + x = x but for the sign of 0, which no result shows
  for (std::uint32_t begin = 0; begin < n; begin += part) {
    accumulate(ring, min(part, n - begin), consumer, warp, lane, sums);
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) acc[i] += sums[0][i];
  }
}

#endif

}  // namespace dllm::cuda::int8

// Tiles of the Hopper product, and what becomes of their sums.
//
// A tile is 128 or 192 weight rows, 64 a consumer, by kTokens input rows by one part of the inputs.
// Where there are several parts, every block leaves the sums of its own in memory, waits for the
// others' and finishes a share of the tile, adding the parts in their order. All blocks of a call
// run at once, so the wait ends. Where there are enough tiles without that, a block takes all parts
// of its tile one after the other and adds them in registers, in the same order.
#pragma once

#include <cstdint>

#include "gemm_common.cuh"

namespace dllm::cuda {

/// How a launch is cut into tiles, and where things lie in shared memory.
struct Plan {
  std::uint32_t n_row_groups;  // tiles of weight rows
  std::uint32_t n_parts;       // of the inputs, that different tiles take
  std::uint32_t n_token_tiles;
  std::uint32_t n_stages;
  std::uint32_t block_bytes;  // room for the weights of a consumer in a stage
};

struct Tile {
  std::uint32_t token_tile;
  std::uint32_t split;
  std::uint32_t first_block;
};

#if defined(DLLM_WARPGROUPS)

// Parts of the same tile are neighbours, so that a block that waits for the others of its tile
// waits for tiles that were begun before its next one: blocks cannot wait for each other in a
// circle.
template <int kConsumers>
__device__ __forceinline__ Tile tile_of(const Plan& plan, std::uint32_t number) {
  const std::uint32_t rest = number / plan.n_parts;
  const std::uint32_t group = rest / plan.n_token_tiles;
  return {rest % plan.n_token_tiles, number % plan.n_parts, group * kConsumers};
}

// The threads of a consumer.
__device__ __forceinline__ void consumer_sync(std::uint32_t consumer) {
  asm volatile("bar.sync %0, 128;\n" ::"r"(1 + consumer) : "memory");
}

// Where the parts of a tile's sums lie: [part][consumer][4 accumulators][thread of the consumer].
template <int kTokens, int kConsumers>
struct Parts {
  static constexpr std::uint32_t kStep = kConsumers * (kTokens / 8) * 128;  // from part to part
};

// Scales of the tile's input rows: read before its products, whose time the reading takes, and kept
// in shared memory by every consumer after them, because reads of global memory would wait for the
// stores of results before them.
template <int kTokens>
class TileScales {
 public:
  __device__ __forceinline__ TileScales(const Panel& panel, std::uint32_t tile_row) {
    const std::uint32_t last = panel.first_row + panel.n_rows - 1;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values_[i] = panel.row_scale[min(tile_row + threadIdx.x % 128 + 128 * i, last)];
  }

  /// Between two consumer_sync().
  __device__ __forceinline__ void keep(std::uint32_t scales) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::uint32_t at = threadIdx.x % 128 + 128 * i;
      if (at < kTokens)
        asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(scales + 4 * at), "f"(values_[i])
                     : "memory");
    }
  }

 private:
  static constexpr int kCount = (kTokens + 127) / 128;
  float values_[kCount];
};

__device__ __forceinline__ float2 scales_of(std::uint32_t scales, std::uint32_t n) {
  float2 two;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
               : "=f"(two.x), "=f"(two.y)
               : "r"(scales + 32 * n + threadIdx.x % 4 * 8));
  return two;
}

// Adds the parts of accumulators 4 n for n = split, split + n_splits, ... in order and stores them.
// kMost: of parts; kBatch: of n whose parts are read together.
template <int kTokens, int kConsumers, int kMost, int kBatch>
__device__ __forceinline__ void add_parts(const GemmArgs& a, const float4* parts,
                                          std::uint32_t split, const ResultRows& rows,
                                          std::uint32_t scales) {
#pragma unroll 1
  for (std::uint32_t n = split; n < kTokens / 8; n += kBatch * a.n_splits) {
    float4 values[kBatch][kMost];
    float4 there[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::uint32_t m = min(n + b * a.n_splits, kTokens / 8 - 1);
#pragma unroll
      for (int s = 0; s < kMost; ++s)
        if (s < a.n_splits)
          values[b][s] = __ldcg(parts + s * Parts<kTokens, kConsumers>::kStep + m * 128);
      there[b] = rows.there(m);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::uint32_t m = n + b * a.n_splits;
      if (m >= kTokens / 8) break;
      float4 sum = values[b][0];
#pragma unroll
      for (int s = 1; s < kMost; ++s)
        if (s < a.n_splits) sum = sum + values[b][s];
      rows.store(m, sum, scales_of(scales, m), there[b]);
    }
  }
}

// One of two blocks of a tile gives accumulators 4 n of one half of n and finishes the other.
template <int kTokens, bool kLower>
__device__ __forceinline__ void give_half(const float (&acc)[kTokens / 2], float4* parts) {
#pragma unroll
  for (int n = 0; n < kTokens / 16; ++n) {
    const int m = kLower ? n : n + kTokens / 16;
    __stcg(parts + m * 128, four(acc, m));
  }
}
template <int kTokens, bool kLower>
__device__ __forceinline__ void finish_half(const float (&acc)[kTokens / 2], const float4* parts,
                                            const ResultRows& rows, std::uint32_t scales) {
  constexpr int kBatch = 2;
#pragma unroll
  for (int n = 0; n < kTokens / 16; n += kBatch) {
    float4 other[kBatch];
    float4 there[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int m = (kLower ? 0 : kTokens / 16) + n + b;
      if (n + b >= kTokens / 16) break;
      other[b] = __ldcg(parts + m * 128);
      there[b] = rows.there(m);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int m = (kLower ? 0 : kTokens / 16) + n + b;
      if (n + b >= kTokens / 16) break;
      rows.store(m, four(acc, m) + other[b], scales_of(scales, m), there[b]);
    }
  }
}

// Every block of a tile has left its part.
__device__ __forceinline__ void await_parts(std::uint32_t* counter, std::uint32_t n_splits,
                                            std::uint32_t consumer) {
  __threadfence();
  consumer_sync(consumer);
  if (threadIdx.x % 128 == 0) {
    atomicAdd(counter, 1);
    std::uint32_t there = 0;
    while (there < n_splits)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(there) : "l"(counter) : "memory");
  }
  consumer_sync(consumer);
}

// The sums of a split tile: this block's, then all parts of the share that it finishes.
template <int kTokens, int kConsumers>
__device__ __forceinline__ void meet(const GemmArgs& a, const Plan& plan, const Tile& tile,
                                     std::uint32_t consumer, const float (&acc)[kTokens / 2],
                                     const ResultRows& rows, std::uint32_t scales) {
  const std::uint32_t thread = threadIdx.x % 128;
  const std::uint32_t place = tile.first_block / kConsumers * plan.n_token_tiles + tile.token_tile;
  float4* parts = reinterpret_cast<float4*>(a.work) +
                  std::uint64_t{place} * a.n_splits * Parts<kTokens, kConsumers>::kStep +
                  consumer * (kTokens / 8) * 128 + thread;
  std::uint32_t* counters = a.counters + place * kCountersPerTile + 2 * consumer;
  constexpr std::uint32_t kStep = Parts<kTokens, kConsumers>::kStep;
  if (a.n_splits == 2 && tile.split == 0) {
    give_half<kTokens, false>(acc, parts);
    await_parts(counters, 2, consumer);
    finish_half<kTokens, true>(acc, parts + kStep, rows, scales);
  } else if (a.n_splits == 2) {
    give_half<kTokens, true>(acc, parts + kStep);
    await_parts(counters, 2, consumer);
    finish_half<kTokens, false>(acc, parts, rows, scales);
  } else {
#pragma unroll
    for (int n = 0; n < kTokens / 8; ++n)
      __stcg(parts + tile.split * kStep + n * 128, four(acc, n));
    await_parts(counters, a.n_splits, consumer);
    add_parts<kTokens, kConsumers, kMostSplits, 1>(a, parts, tile.split, rows, scales);
  }
  consumer_sync(consumer);
  // The last to leave clears both counters for the next call.
  if (thread == 0 && atomicAdd(counters + 1, 1) == a.n_splits - 1) {
    counters[0] = 0;
    counters[1] = 0;
  }
}

#endif

}  // namespace dllm::cuda

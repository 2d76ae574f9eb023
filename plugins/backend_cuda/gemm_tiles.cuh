// Tiles of the Hopper product, and what becomes of their sums.
//
// A tile is 128 or 192 weight rows, 64 a consumer, by kTokens input rows by one part of the inputs.
// Where there are several parts, every block finishes a share of the tile: it leaves its sums of
// the other shares in memory, waits for the others' of its own and adds the parts in their order.
// All blocks of a call run at once, so the wait ends. Where there are enough tiles without that, a
// block takes all parts of its tile one after the other and adds them in registers, in the same
// order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gemm_common.cuh"
#include "row_scale.cuh"

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

  /// Between two consumer_sync(). Where `kInverse`, 1 over them.
  template <bool kInverse = false>
  __device__ __forceinline__ void keep(std::uint32_t scales) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::uint32_t at = threadIdx.x % 128 + 128 * i;
      if (at < kTokens)
        asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(scales + 4 * at),
                     "f"(kInverse ? inverse_of(values_[i]) : values_[i])
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

// How the parts of a tile's sums meet: accumulators 4 n to 4 n + 3 are finished by the block of
// part n / kShare, to which the others give theirs. A warp's accumulators are those of the same
// warp in every block of the tile, so warps meet, not blocks.
template <int kTokens, int kConsumers, int kSplits>
class Meeting {
 public:
  __device__ __forceinline__ Meeting(const GemmArgs& a, std::uint32_t place, std::uint32_t split,
                                     std::uint32_t consumer)
      : parts_(reinterpret_cast<float4*>(a.work) + std::uint64_t{place} * kSplits * kStep +
               consumer * kCount * 128 + threadIdx.x % 128),
        arrivals_(a.counters + place * kCountersPerTile + consumer * 4 + threadIdx.x / 32 % 4),
        split_(split),
        lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run(const float (&acc)[kTokens / 2], const ResultRows& rows,
                                      std::uint32_t scales) const {
    give(acc);
#pragma unroll
    for (int split = 0; split < kSplits; ++split)
      if (split == static_cast<int>(split_)) finish(split, acc, rows, scales);
  }

 private:
  static constexpr int kCount = kTokens / 8;
  static constexpr int kShare = (kCount + kSplits - 1) / kSplits;
  // Of n whose parts are read together, as registers allow: sums of three consumers leave few.
  static constexpr int kRoom = (kConsumers == 2 ? 15 : 5) / (kSplits - 1);
  static constexpr int kBatch = kRoom < 1 ? 1 : kRoom < kShare ? kRoom : kShare;
  static constexpr std::uint32_t kStep = kConsumers * kCount * 128;  // from part to part
  static constexpr std::uint32_t kNext = 4 * kConsumers;             // from counter to counter

  __device__ __forceinline__ void give(const float (&acc)[kTokens / 2]) const {
#pragma unroll
    for (int n = 0; n < kCount; ++n)
      if (n / kShare != static_cast<int>(split_))
        __stcg(parts_ + split_ * kStep + n * 128, four(acc, n));
    __syncwarp();
    if (lane_ < static_cast<std::uint32_t>(kSplits) && lane_ != split_) {
      __threadfence();
      asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;\n" ::"l"(arrivals_ + lane_ * kNext)
                   : "memory");
    }
  }

  // All others have given. Nobody else touches the counter until the next call.
  __device__ __forceinline__ void await() const {
    if (lane_ == 0) {
      std::uint32_t there = 0;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n"
                     : "=r"(there)
                     : "l"(arrivals_ + split_ * kNext)
                     : "memory");
      } while (there < static_cast<std::uint32_t>(kSplits - 1));
      arrivals_[split_ * kNext] = 0;
    }
    __syncwarp();
  }

  // `split` is split_, known where loops are unrolled.
  __device__ __forceinline__ void finish(int split, const float (&acc)[kTokens / 2],
                                         const ResultRows& rows, std::uint32_t scales) const {
#pragma unroll
    for (int first = 0; first < kShare; first += kBatch) {
      float4 values[kBatch][kSplits];
      float4 there[kBatch];
      const auto n_of = [&](int b) { return split * kShare + first + b; };
      const auto is_there = [&](int b) { return first + b < kShare && n_of(b) < kCount; };
#pragma unroll
      for (float4& each : there) each = {};
      if (rows.adds()) {
#pragma unroll
        for (int b = 0; b < kBatch; ++b)
          if (is_there(b)) there[b] = rows.there(n_of(b));
      }
      if (first == 0) await();
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
#pragma unroll
        for (int s = 0; s < kSplits; ++s)
          if (is_there(b))
            values[b][s] =
                s == split ? four(acc, n_of(b)) : __ldcg(parts_ + s * kStep + n_of(b) * 128);
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (!is_there(b)) continue;
        float4 sum = values[b][0];
#pragma unroll
        for (int s = 1; s < kSplits; ++s) sum = sum + values[b][s];
        rows.store(n_of(b), sum, scales_of(scales, n_of(b)), there[b]);
      }
    }
  }

  float4* parts_;
  std::uint32_t* arrivals_;
  std::uint32_t split_;
  std::uint32_t lane_;
};

// The sums of a tile that has no others to meet.
template <int kTokens>
__device__ __forceinline__ void store_sums(const float (&acc)[kTokens / 2], const ResultRows& rows,
                                           std::uint32_t scales) {
  constexpr int kCount = kTokens / 8;
  if (!rows.adds()) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) rows.store(n, four(acc, n), scales_of(scales, n), {});
    return;
  }
  constexpr int kBatch = 4;
#pragma unroll
  for (int first = 0; first < kCount; first += kBatch) {
    float4 there[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (first + b < kCount) there[b] = rows.there(first + b);
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (first + b < kCount)
        rows.store(first + b, four(acc, first + b), scales_of(scales, first + b), there[b]);
  }
}

// The sums of a split tile: this block's, then all parts of the share that it finishes.
template <int kTokens, int kConsumers>
__device__ __forceinline__ void meet(const GemmArgs& a, const Plan& plan, const Tile& tile,
                                     std::uint32_t consumer, const float (&acc)[kTokens / 2],
                                     const ResultRows& rows, std::uint32_t scales) {
  const std::uint32_t place = tile.first_block / kConsumers * plan.n_token_tiles + tile.token_tile;
  const auto with = [&](auto splits) {
    Meeting<kTokens, kConsumers, decltype(splits)::value>(a, place, tile.split, consumer)
        .run(acc, rows, scales);
  };
  switch (a.n_splits) {
    case 2:
      return with(std::integral_constant<int, 2>{});
    case 3:
      return with(std::integral_constant<int, 3>{});
    case 4:
      return with(std::integral_constant<int, 4>{});
    case 5:
      return with(std::integral_constant<int, 5>{});
    default:
      return with(std::integral_constant<int, 6>{});
  }
}

#endif

}  // namespace dllm::cuda

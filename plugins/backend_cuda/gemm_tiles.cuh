// Tiles of the Hopper product, and what becomes of their sums.
//
// A tile is up to 128 or 192 weight rows, 64 a consumer, by kTokens input rows by one part of the
// inputs. Where there are several parts, sums are left in memory as they are, for whoever reads the
// results (sums.cuh). Where there are enough tiles without that, a block takes all parts of its
// tile one after the other and adds them in registers, in the same order.
#pragma once

#include <cstdint>

#include "gemm_common.cuh"
#include "row_scale.cuh"

namespace dllm::cuda {

/// How a launch is cut into tiles, and where things lie in shared memory.
struct Plan {
  std::uint32_t n_row_groups;  // tiles of weight rows
  std::uint32_t group_blocks;  // of 64 weight rows, of each of them,
  std::uint32_t n_larger;      // and one more of the first n_larger
  std::uint32_t n_parts;       // of the inputs, that different tiles take
  std::uint32_t n_token_tiles;
  std::uint32_t n_stages;
  std::uint32_t block_bytes;  // room for the weights of a consumer in a stage
};

struct Tile {
  std::uint32_t token_tile;
  std::uint32_t split;
  std::uint32_t first_block;
  std::uint32_t n_blocks;
};

#if defined(DLLM_WARPGROUPS)

__device__ __forceinline__ Tile tile_of(const Plan& plan, std::uint32_t number) {
  const std::uint32_t rest = number / plan.n_parts;
  const std::uint32_t group = rest / plan.n_token_tiles;
  return {rest % plan.n_token_tiles, number % plan.n_parts,
          group * plan.group_blocks + min(group, plan.n_larger),
          plan.group_blocks + (group < plan.n_larger ? 1 : 0)};
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

// The sums of a tile that has all inputs.
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

// The sums of a tile that has a part of the inputs, as they are, where Sums looks for them: rows
// that the call does not have are stored, too, and read by nobody.
template <int kTokens>
__device__ __forceinline__ void store_part(const GemmArgs& a, const Tile& tile, std::uint32_t block,
                                           int warp, int lane, const float (&acc)[kTokens / 2]) {
  const std::uint64_t row =
      (std::uint64_t{tile.split} * a.n_blocks + block) * a.block_rows + tile.token_tile * kTokens;
  float* to = a.work + (row + 2 * (lane % 4)) * kBlockRows + warp * kUnitRows + lane / 4;
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i)
    to[(8 * (i / 4) + i % 2) * kBlockRows + 8 * (i / 2 % 2)] = acc[i];
}

#endif

}  // namespace dllm::cuda

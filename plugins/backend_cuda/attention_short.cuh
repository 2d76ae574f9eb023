// A block of attention over short sequences: how its threads and its shared memory are used, and
// what its parts exchange (attention_short.cu).
#pragma once

#include "async_copy.cuh"
#include "attention_queries.cuh"

namespace dllm::cuda::short_attention {

constexpr int kGroups = 2;
constexpr int kWarps = kGroups * kGroupWarps;
constexpr std::uint32_t kThreads = kGroups * kGroupThreads;
constexpr int kKeys = static_cast<int>(kShortKeys);
constexpr int kOwnKeys = kKeys / kGroups;
template <int kDim>
using Layout = WarpgroupProducts<kDim, kKeys>;

// How a block's shared memory is used, in bytes: queries, keys and values first. Once scores are
// there, weights take the place of keys, and factors and figures of rows that of queries. Queries,
// weights and the tiles of a panel are blocks of 64 rows of 128 bytes with 128-byte swizzle.
template <int kDim>
struct Shared {
  static constexpr int kAlignment = 1024;
  static constexpr int kTile = kGroupQueries * 128;
  static constexpr int kKeyRows = 0;
  static constexpr int kWeights = 0;
  static constexpr int kValues = Layout<kDim>::kTileBytes;
  static constexpr int kQueries = 2 * kValues;
  static constexpr int kKeyFactors = kQueries;                             // a float2 a key
  static constexpr int kValueFactors = kKeyFactors + 8 * kKeys;            // a float a key
  static constexpr int kRowMost = kValueFactors + 4 * kKeys;               // a float a row
  static constexpr int kRowSums = kRowMost + 4 * kGroups * kGroupQueries;  // a float a row
  static constexpr bool kTilesFit = kKeys / 64 * kTile + kDim / 64 * kTile <= kValues;
  static constexpr int kTiles = kTilesFit ? kKeys / 64 * kTile : kQueries + kDim / 64 * kTile;
  static constexpr int kLargest =
      kQueries + kDim / 64 * kTile + (kTilesFit ? 0 : kDim / 64 * kTile);  // a uint4 a warp
  static constexpr int kBytes = kLargest + 16 * kWarps;
  static_assert(kRowSums + 4 * kGroups * kGroupQueries <= kQueries + kDim / 64 * kTile);
};

#if defined(DLLM_WARPGROUPS)

// What a thread is in its block.
struct Thread {
  std::uint32_t number = threadIdx.x;
  int lane = static_cast<int>(threadIdx.x % 32);
  int group = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / kGroupThreads), 0);
  int warp = static_cast<int>(threadIdx.x % kGroupThreads / 32);  // of the group
  int row = 16 * warp + lane / 4;                                 // of the queries, and row + 8

  __device__ __forceinline__ void sync_group() const {
    asm volatile("bar.sync %0, %1;\n" ::"r"(group + 1), "n"(kGroupThreads) : "memory");
  }
};

// A row's figure of both groups, by way of shared memory: each leaves its own, all take both.
template <typename Op>
__device__ __forceinline__ void over_groups(float (&figure)[2], std::uint8_t* memory,
                                            const Thread& thread, const Op& op) {
  auto* rows = reinterpret_cast<float*>(memory);
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* row = rows + thread.row + 8 * half;
    figure[half] = row[0];
#pragma unroll
    for (int group = 1; group < kGroups; ++group)
      figure[half] = op(figure[half], row[group * kGroupQueries]);
  }
}
template <typename Op>
__device__ __forceinline__ void leave(const float (&figure)[2], std::uint8_t* memory,
                                      const Thread& thread, const Op& op) {
  auto* rows = reinterpret_cast<float*>(memory) + thread.group * kGroupQueries + thread.row;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float all = over_row(figure[half], op);
    if (thread.lane % 4 == 0) rows[8 * half] = all;
  }
}

// out[4 n + 2 half + i]: of row `half` and this group's dimension 8 n + 2 (lane % 4) + i.
using Results = float[32];

#endif

}  // namespace dllm::cuda::short_attention

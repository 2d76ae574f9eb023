// The ring of stages of the int8 product, and its producer.
//
// A stage holds 128 inputs: a block of the panel, a block of weights for each of the tile's 64
// weight rows, and the steps of both.
#pragma once

#include "gemm_int8.hpp"
#include "gemm_ring.cuh"
#include "gemm_tiles.cuh"

namespace dllm::cuda {

constexpr std::uint32_t kInt8Consumers = 2;

/// kBlocks: of 64 weight rows, in a stage.
template <int kTokens, int kBlocks>
struct Int8Sizes {
  static constexpr std::uint32_t kBlockBytes = kBlockRows * kInt8Cols;
  static constexpr std::uint32_t kBlockStepBytes = kBlockRows * 4;
  static constexpr std::uint32_t kPanelBytes = kTokens * kInt8Cols;
  static constexpr std::uint32_t kStageBytes = kPanelBytes + kBlocks * kBlockBytes;
  static constexpr std::uint32_t kStepBytes = kTokens * 4 + kBlocks * kBlockStepBytes;
  /// Of barriers, scales of 1, and what the rows of a tile of products reach.
  static constexpr std::uint32_t kFixedBytes =
      kBarrierBytes + kTokens * 4 + 4 * kInt8Consumers * kTokens * 4;
  static constexpr std::uint32_t header_bytes(std::uint32_t n_stages) {
    return (kFixedBytes + n_stages * kStepBytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  static constexpr std::uint32_t bytes(std::uint32_t n_stages) {
    return kAlignment + header_bytes(n_stages) + n_stages * kStageBytes;
  }
  static constexpr std::uint32_t most_stages() {
    std::uint32_t n = kMostStages;
    while (bytes(n) > kSharedBytes) --n;
    return n;
  }
  static constexpr std::uint32_t kStages = most_stages();
};

#if defined(DLLM_WARPGROUPS)

// `full` completes when a stage's bytes are there, `empty` when every consuming warp has let go of
// it.
template <int kTokens, int kBlocks>
struct Int8Ring {
  using Size = Int8Sizes<kTokens, kBlocks>;
  static constexpr std::uint32_t n_stages = Size::kStages;
  std::uint32_t base;
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ std::uint32_t full(std::uint32_t s) const { return base + 8 * s; }
  __device__ std::uint32_t empty(std::uint32_t s) const { return base + 8 * (kMostStages + s); }
  /// kTokens floats of 1: scales of input rows, which int8 panels do not have.
  __device__ std::uint32_t ones() const { return base + kBarrierBytes; }
  /// kTokens words of each consuming warp: what the rows of its products reach, or of each
  /// consumer: 1 over their scales.
  __device__ std::uint32_t reached() const { return ones() + kTokens * 4; }
  /// Steps of the tile's input rows, then of its blocks' weight rows.
  __device__ std::uint32_t steps() const {
    return base + Size::kFixedBytes + stage * Size::kStepBytes;
  }
  __device__ std::uint32_t weight_steps(std::uint32_t block) const {
    return steps() + kTokens * 4 + block * Size::kBlockStepBytes;
  }
  __device__ std::uint32_t panel() const {
    return base + Size::header_bytes(n_stages) + stage * Size::kStageBytes;
  }
  __device__ std::uint32_t weights(std::uint32_t block) const {
    return panel() + Size::kPanelBytes + block * Size::kBlockBytes;
  }
  __device__ void advance() {
    if (++stage == n_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// By all threads of a block, before the ring is used.
template <int kTokens, int kBlocks>
__device__ __forceinline__ void begin_int8_ring(Int8Ring<kTokens, kBlocks>& ring,
                                                const void* memory, std::uint32_t n_warps) {
  ring.base = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  begin_ring(ring, n_warps);
  if (threadIdx.x < kTokens)
    asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(ring.ones() + 4 * threadIdx.x), "f"(1.0f)
                 : "memory");
  __syncthreads();
}

// Blocks of a tile along the inputs.
template <Kind kKind>
__device__ __forceinline__ Units int8_units_of(const GemmArgs& a, const Tile& tile) {
  const std::uint32_t n = int8_blocks(a.panel.n_cols);
  if (kKind != Kind::parts) return {0, n};
  const std::uint32_t begin = tile.split * a.units_per_split;
  return {begin, min(begin + a.units_per_split, n) - begin};
}

// The weights of block number `i` of a tile, as the call counts its blocks; one that does not exist
// is read from the first.
struct Int8Source {
  const std::int8_t* codes;
  const float* steps;
};
template <int kPer, Kind kKind>
__device__ __forceinline__ Int8Source int8_source(const GemmArgs& a, const Tile& tile,
                                                  std::uint32_t i, std::uint32_t begin) {
  const std::uint32_t block = tile.first_block + (kKind == Kind::gated ? i / kPer : i);
  const std::uint32_t existing = block < a.n_blocks ? block : 0;
  const GemmPart& part = kKind == Kind::gated ? a.parts[i % kPer] : a.part_of(existing);
  const std::uint32_t of_part =
      kKind == Kind::gated ? existing : existing - part.first_col / kBlockRows;
  const std::uint64_t row =
      (std::uint64_t{of_part} * int8_blocks(a.panel.n_cols) + begin) * kBlockRows;
  return {part.weight.int8.codes + row * kInt8Cols, part.weight.int8.steps + row};
}

// One warp: the first lanes bring a block of weights each, lanes from 8 on their steps, lanes 16
// and 17 the panel's block and its steps. kPer: blocks that a consumer takes.
template <int kTokens, int kPer, Kind kKind, int kBlocks>
__device__ __forceinline__ void produce_int8(const GemmArgs& a, const Int8Panel& panel,
                                             const Plan& plan, Int8Ring<kTokens, kBlocks> ring) {
  using Ring = Int8Ring<kTokens, kBlocks>;
  using Size = Int8Sizes<kTokens, kBlocks>;
  static_assert(kBlocks <= 8);
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  bool first = true;
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(plan, number);
    const auto [begin, n] = int8_units_of<kKind>(a, tile);
    const std::uint32_t mine = lane % 8;
    const Int8Source source = int8_source<kPer, kKind>(a, tile, mine, begin);
    const std::uint64_t panel_row = std::uint64_t{begin} * panel.padded_rows +
                                    first_tile_row<kTokens>(a.panel, tile.token_tile);
    const auto bring_weights = [&](const Ring& at, std::uint32_t u) {
      if (lane == 0) barrier_expect(at.full(at.stage), Size::kStageBytes + Size::kStepBytes);
      __syncwarp();
      if (mine >= kBlocks) return;
      const std::uint64_t row = std::uint64_t{u} * kBlockRows;
      if (lane < 8)
        copy_bulk(at.weights(mine), source.codes + row * kInt8Cols, Size::kBlockBytes,
                  at.full(at.stage));
      if (lane / 8 == 1)
        copy_bulk(at.weight_steps(mine), source.steps + row, Size::kBlockStepBytes,
                  at.full(at.stage));
    };
    const auto bring_panel = [&](const Ring& at, std::uint32_t u) {
      const std::uint64_t row = panel_row + std::uint64_t{u} * panel.padded_rows;
      if (lane == 16)
        copy_bulk(at.panel(), panel.codes + row * kInt8Cols, Size::kPanelBytes, at.full(at.stage));
      if (lane == 17) copy_bulk(at.steps(), panel.steps + row, kTokens * 4, at.full(at.stage));
    };
    fill_stages(ring, n, first, bring_weights, bring_panel);
  }
}

#endif

}  // namespace dllm::cuda

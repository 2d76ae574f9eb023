// silu(gate) * up of int8 products, for calls of few input rows: tiles of up to 96 columns.
//
// A block has three consumers; each takes 32 rows of gate and the same 32 of up, a warp eight of
// each, so a thread has both factors of its products (as in gemm_gated.cuh). Weights come to
// registers by ldmatrix, which lets a warp choose its rows. Sums are made as gemm_int8_consumer.cuh
// makes them, so the results of both kernels are the same bits.
#pragma once

#include "gemm_gated.cuh"
#include "gemm_int8_consumer.cuh"
#include "integer_wgmma.cuh"
#include "tensor_core.cuh"

namespace dllm::cuda {

constexpr std::uint32_t kGatedConsumers = 3;
constexpr std::uint32_t kHalfRows = kBlockRows / 2;  // of gate, and of up, of a consumer

#if defined(DLLM_WARPGROUPS)

// A block of a stage is 32 rows of gate and the same 32 of up, likewise its steps.
template <int kTokens>
using GatedRing = Int8Ring<kTokens, kGatedConsumers>;

// One warp: lanes 2 i and 2 i + 1 bring gate and up of consumer i, lanes from 8 on their steps,
// lanes 16 and 17 the panel's block and its steps.
template <int kTokens>
__device__ __forceinline__ void produce_gated(const GemmArgs& a, const Int8Panel& panel,
                                              const Plan& plan, GatedRing<kTokens> ring) {
  using Ring = GatedRing<kTokens>;
  constexpr std::uint32_t kHalfBytes = kHalfRows * kInt8Cols;
  constexpr std::uint32_t kHalfStepBytes = kHalfRows * 4;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_token_tiles;
  const std::uint32_t n = int8_blocks(a.panel.n_cols);
  bool first = true;
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(plan, number);
    const std::uint32_t consumer = lane % 8 / 2;
    const std::uint32_t half = lane % 2;
    const bool brings = lane < 16 && consumer < tile.n_blocks;
    const Int8Weights& weights = a.parts[half].weight.int8;
    const std::uint32_t rows = tile.first_block + (brings ? consumer : 0);  // 32 of each matrix
    const std::uint64_t row = std::uint64_t{rows / 2} * n * kBlockRows + rows % 2 * kHalfRows;
    const std::uint64_t panel_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    const std::uint32_t bytes =
        Ring::Size::kPanelBytes + kTokens * 4 + 2 * tile.n_blocks * (kHalfBytes + kHalfStepBytes);
    const auto bring_weights = [&](const Ring& at, std::uint32_t u) {
      if (lane == 0) barrier_expect(at.full(at.stage), bytes);
      __syncwarp();
      if (!brings) return;
      const std::uint64_t from = row + std::uint64_t{u} * kBlockRows;
      if (lane < 8) {
        copy_bulk(at.weights(consumer) + half * kHalfBytes, weights.codes + from * kInt8Cols,
                  kHalfBytes, at.full(at.stage));
      } else {
        copy_bulk(at.weight_steps(consumer) + half * kHalfStepBytes, weights.steps + from,
                  kHalfStepBytes, at.full(at.stage));
      }
    };
    const auto bring_panel = [&](const Ring& at, std::uint32_t u) {
      const std::uint64_t from = panel_row + std::uint64_t{u} * panel.padded_rows;
      if (lane == 16)
        copy_bulk(at.panel(), panel.codes + from * kInt8Cols, Ring::Size::kPanelBytes,
                  at.full(at.stage));
      if (lane == 17) copy_bulk(at.steps(), panel.steps + from, kTokens * 4, at.full(at.stage));
    };
    fill_stages(ring, n, first, bring_weights, bring_panel);
  }
}

template <int kTokens>
struct GatedConsumer {
  // Input rows whose integer sums are held at once, as registers allow; of 176 rows, the last 48.
  static constexpr int kChunk = kTokens == 176 ? 64 : kTokens > 80 ? kTokens / 2 : kTokens;

  GatedRing<kTokens>& ring;
  std::uint32_t consumer;
  int warp;
  int lane;

  // Eight rows of gate, the same of up: matrix lane / 8 is rows of gate, of up, of gate 16 inputs
  // further, of up there.
  __device__ __forceinline__ void load(const GatedRing<kTokens>& from,
                                       std::uint32_t (&weights)[4][4]) const {
    const std::uint32_t matrix = lane / 8;
    const std::uint32_t row = lane % 8;
    // Rows begin at multiples of 128, so steps of 32 inputs are bits of the address.
    const std::uint32_t at = from.weights(consumer) +
                             (matrix % 2 * kHalfRows + warp * 8 + row) * kInt8Cols +
                             ((matrix / 2) ^ row) * 16;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) load_matrices(at ^ (32 * j), weights[j]);
  }

  // Of the warp's rows of gate, or of up.
  __device__ __forceinline__ float step_of(std::uint32_t half) const {
    return read_float(ring.weight_steps(consumer) + (half * kHalfRows + warp * 8 + lane / 4) * 4);
  }

  // sums = products of the stage's weights and kRows input rows from `row`, plus sums where `adds`.
  template <int kRows>
  __device__ __forceinline__ void multiply(const GatedRing<kTokens>& from, int row, bool adds,
                                           std::int32_t (&sums)[kRows / 2]) const {
    std::uint32_t weights[4][4];
    load(from, weights);
    const std::uint64_t panel = swizzled_operand(from.panel() + row * kInt8Cols);
    products_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j)
      IntegerProduct<kRows>::run(sums, weights[j], panel + kOperandStep * j, adds || j > 0);
    products_commit();
    products_wait();
    // Products read their registers until here.
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("" ::"r"(weights[j][0]), "r"(weights[j][1]), "r"(weights[j][2]),
                   "r"(weights[j][3]));
  }

  // Adds products of kRows input rows from `row`, of stages that share a step.
  template <int kRows, std::uint32_t kStages>
  __device__ __forceinline__ void add_products(const GatedRing<kTokens> (&stages)[kStages], int row,
                                               const float (&weight_step)[2],
                                               float (&acc)[kTokens / 2]) const {
    std::int32_t sums[kRows / 2];
#pragma unroll
    for (std::uint32_t s = 0; s < kStages; ++s) multiply<kRows>(stages[s], row, s > 0, sums);
    add_integer_sums<kRows>(sums, row, weight_step, ring.steps(), acc);
  }

  // acc += products of the ring's next kStages stages, which share a step.
  template <std::uint32_t kStages>
  __device__ __forceinline__ void accumulate_stages(float (&acc)[kTokens / 2]) {
    GatedRing<kTokens> stages[kStages];
    wait_for_stages(ring, stages);
    const float weight_step[2] = {step_of(0), step_of(1)};
#pragma unroll
    for (int row = 0; row + kChunk <= kTokens; row += kChunk)
      add_products<kChunk>(stages, row, weight_step, acc);
    if constexpr (kTokens % kChunk > 0)
      add_products<kTokens % kChunk>(stages, kTokens - kTokens % kChunk, weight_step, acc);
    let_go<kStages>(ring, lane);
  }

  // acc = products of the ring's next n blocks.
  __device__ __forceinline__ void accumulate(std::uint32_t n, float (&acc)[kTokens / 2]) {
    static_assert(kGatedStepCols == 2 * kInt8Cols);
#pragma unroll
    for (float& each : acc) each = 0;
    for (std::uint32_t u = 2; u <= n; u += 2) accumulate_stages<2>(acc);
    if (n % 2 != 0) accumulate_stages<1>(acc);
  }
};

// Products of the warp's eight columns from `col` as they are.
template <int kTokens>
__device__ __forceinline__ void store_product_rows(const GemmArgs& a, const Rows& to,
                                                   std::uint32_t tile_row, std::uint32_t col,
                                                   int lane, const float (&acc)[kTokens / 2]) {
  const float gate_scale = a.parts[0].weight.out_scale;
  const float up_scale = a.parts[1].weight.out_scale;
  const std::uint32_t row = tile_row + 2 * (lane % 4);
  const std::uint32_t own_col = col + lane / 4;
  const std::uint32_t limit = own_col < to.n_cols ? to.n_rows : 0;
  float* at = to.values + std::uint64_t{row} * to.n_cols + own_col;
#pragma unroll
  for (int n = 0; n < kTokens / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      store_below(row + 8 * n + i, limit, at + std::uint64_t{to.n_cols} * (8 * n + i),
                  silu(acc[4 * n + i] * gate_scale) * (acc[4 * n + 2 + i] * up_scale));
}

template <int kTokens>
__device__ __forceinline__ void consume_gated(const GemmArgs& a, const Rows& to, const Plan& plan,
                                              GatedRing<kTokens> ring) {
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_token_tiles;
  const std::uint32_t n = int8_blocks(a.panel.n_cols);
  GatedConsumer<kTokens> at = {ring, consumer, warp, lane};
  wait_for_predecessor();
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(plan, number);
    if (consumer >= tile.n_blocks) {
      skip_stages(ring, n, lane);
      continue;
    }
    const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    const std::uint32_t col = (tile.first_block + consumer) * kHalfRows + 8 * warp;
    float acc[kTokens / 2];
    at.accumulate(n, acc);
    if (to.values) {
      store_product_rows<kTokens>(a, to, tile_row, col, lane, acc);
      continue;
    }
    const TileScales<kTokens> scales(a.products, tile_row);
    const std::uint32_t inverses = ring.reached() + consumer * kTokens * 4;
    consumer_sync(consumer);  // the tile before is stored
    scales.template keep<true>(inverses);
    consumer_sync(consumer);
    store_products<kTokens>(a, tile_row, col, lane, ring.ones(), inverses, acc);
  }
}

#endif

}  // namespace dllm::cuda

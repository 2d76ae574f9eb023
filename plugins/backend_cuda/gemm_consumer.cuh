// The consumers of the Hopper product: codes to operands, products, sums to results.
#pragma once

#include "async_copy.cuh"
#include "gemm_gated.cuh"
#include "gemm_ring.cuh"
#include "launch.cuh"
#include "wgmma.cuh"

namespace dllm::cuda {

#if defined(DLLM_WARPGROUPS)

template <Form kForm, int kTokens, int kConsumers, Kind kKind>
struct Consumer {
  Ring<kTokens, kConsumers>& ring;
  std::uint32_t consumer;
  int warp;
  int lane;

  // Operands of the ring's stage, when it is there.
  __device__ __forceinline__ void unpack(std::uint32_t (&operand)[4][4]) const {
    barrier_wait(ring.full(ring.stage), ring.parity);
    constexpr std::uint32_t kUnitBytes = form_facts(kForm).unit_bytes();
    Unit<kForm> unit;
    if constexpr (kKind == Kind::gated) {
      // Two units of gate and the same two of up: a warp takes eight rows of each.
      Unit<kForm> up;
      const std::uint32_t at = ring.weights(consumer) + warp / 2 * kUnitBytes;
      unit.load_shared(at, lane);
      up.load_shared(at + 2 * kUnitBytes, lane);
      unit.choose_rows(warp % 2 != 0);
      up.choose_rows(warp % 2 != 0);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        operand[j][0] = unit.pair(j, 0);
        operand[j][1] = up.pair(j, 0);
        operand[j][2] = unit.pair(j, 2);
        operand[j][3] = up.pair(j, 2);
      }
    } else {
      unit.load_shared(ring.weights(consumer) + warp * kUnitBytes, lane);
#pragma unroll
      for (int j = 0; j < 4; ++j) unit.operand(j, operand[j]);
    }
  }

  __device__ __forceinline__ void start(const std::uint32_t (&operand)[4][4], bool adds,
                                        float (&acc)[kTokens / 2]) const {
    const std::uint32_t panel = ring.panel();
    products_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j)
      WarpgroupProduct<kTokens>::run(acc, operand[j], swizzled_operand(panel + 32 * j),
                                     j > 0 || adds);
    products_commit();
  }

  // Starts the products of the stage; meanwhile unpacks the next one, if there is one.
  __device__ __forceinline__ void turn(const std::uint32_t (&operand)[4][4],
                                       std::uint32_t (&next)[4][4], bool first, bool last,
                                       float (&acc)[kTokens / 2]) {
    start(operand, !first, acc);
    const std::uint32_t used = ring.empty(ring.stage);
    ring.advance();
    if (!last) unpack(next);
    products_wait();
    __syncwarp();  // the other lanes' reads, too, come before the arrival
    if (lane == 0) barrier_arrive(used);
    // Products read their registers until here.
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("" ::"r"(operand[j][0]), "r"(operand[j][1]), "r"(operand[j][2]),
                   "r"(operand[j][3]));
  }

  // acc = products of the ring's next n units.
  __device__ __forceinline__ void accumulate(std::uint32_t n, float (&acc)[kTokens / 2]) {
    if constexpr (kConsumers == 2) {
      std::uint32_t even[4][4];
      std::uint32_t odd[4][4];
      unpack(even);
      for (std::uint32_t u = 0; u < n; u += 2) {
        turn(even, odd, u == 0, u + 1 == n, acc);
        if (u + 1 < n) turn(odd, even, false, u + 2 == n, acc);
      }
    } else {
      for (std::uint32_t u = 0; u < n; ++u) {
        std::uint32_t operand[4][4];
        unpack(operand);
        start(operand, u > 0, acc);
        products_wait();
        let_go<1>(ring, lane);
      }
    }
  }

  // The same of all n units, whose parts of `part` units are added in their order.
  __device__ __forceinline__ void accumulate_parts(std::uint32_t n, std::uint32_t part,
                                                   float (&acc)[kTokens / 2]) {
    float sums[kTokens / 2];  // of the running part
    std::uint32_t even[4][4];
    std::uint32_t odd[4][4];
    std::uint32_t left = part;
    const auto take = [&](const std::uint32_t(&operand)[4][4], std::uint32_t(&next)[4][4],
                          bool last) {
      turn(operand, next, left == part, last, sums);
      if (--left > 0 && !last) return;
      left = part;
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) acc[i] += sums[i];
    };
#pragma unroll
    for (float& each : acc) each = 0;  // 0 + x = x but for the sign of 0, which no result shows
    unpack(even);
    for (std::uint32_t u = 0; u < n; u += 2) {
      take(even, odd, u + 1 == n);
      if (u + 1 < n) take(odd, even, u + 2 == n);
    }
  }
};

template <Form kForm, int kTokens, int kConsumers, Kind kKind>
__device__ __forceinline__ void sum_tile(const GemmArgs& a, Ring<kTokens, kConsumers>& ring,
                                         std::uint32_t n, std::uint32_t consumer, int warp,
                                         int lane, float (&acc)[kTokens / 2]) {
  Consumer<kForm, kTokens, kConsumers, kKind> at = {ring, consumer, warp, lane};
  if constexpr (kKind == Kind::in_turn) {
    at.accumulate_parts(n, a.units_per_split, acc);
  } else {
    at.accumulate(n, acc);
  }
}

template <int kTokens, int kConsumers, Kind kKind>
__device__ __forceinline__ void consume(const GemmArgs& a, const Plan& plan,
                                        Ring<kTokens, kConsumers> ring) {
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  wait_for_predecessor();
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(plan, number);
    const std::uint32_t n = units_of<kKind>(a, tile).count;
    if (consumer >= tile.n_blocks) {
      skip_stages(ring, n, lane);
      continue;
    }
    const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    const TileScales<kTokens> scales(a.panel, tile_row);
    const TileScales<kTokens> product_scales(kKind == Kind::gated ? a.products : a.panel, tile_row);
    const std::uint32_t block = tile.first_block + consumer;
    const GemmPart& part = a.part_of(kKind == Kind::gated ? 0 : block);
    float acc[kTokens / 2];
    with_form(part.weight.form, [&](auto form) {
      sum_tile<decltype(form)::value, kTokens, kConsumers, kKind>(a, ring, n, consumer, warp, lane,
                                                                  acc);
    });
    if constexpr (kKind == Kind::parts) {
      if (plan.n_parts > 1) {
        store_part<kTokens>(a, tile, block, warp, lane, acc);
        continue;
      }
    }
    consumer_sync(consumer);  // the tile before is stored
    scales.keep(ring.scales(consumer));
    if constexpr (kKind == Kind::gated)
      product_scales.template keep<true>(ring.product_scales(consumer));
    consumer_sync(consumer);
    if constexpr (kKind == Kind::gated) {
      const std::uint32_t col = block * (kBlockRows / 2) + 8 * warp;
      store_products<kTokens>(a, tile_row, col, lane, ring.scales(consumer),
                              ring.product_scales(consumer), acc);
      continue;
    }
    const ResultRows rows(a, part, block * kBlockRows - part.first_col + warp * kUnitRows, tile_row,
                          lane);
    store_sums<kTokens>(acc, rows, ring.scales(consumer));
  }
}

#endif

}  // namespace dllm::cuda

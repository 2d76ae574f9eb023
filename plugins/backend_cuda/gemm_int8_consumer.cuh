// The consumers of the int8 product: integer sums of what shares a step, 128 inputs, in gated calls
// 256, their f32 sums, results.
#pragma once

#include <type_traits>

#include "gemm_gated.cuh"
#include "gemm_int8_ring.cuh"
#include "integer_wgmma.cuh"
#include "row_scale.cuh"

namespace dllm::cuda {

#if defined(DLLM_WARPGROUPS)

__device__ __forceinline__ float read_float(std::uint32_t at) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(value) : "r"(at) : "memory");
  return value;
}

// What integer sums of kRows input rows from `row` add to f32 sums. `steps`: of the tile's input
// rows, in shared memory.
template <int kRows, int kTokens>
__device__ __forceinline__ void add_integer_sums(const std::int32_t (&sums)[kRows / 2], int row,
                                                 const float (&weight_step)[2], std::uint32_t steps,
                                                 float (&acc)[kTokens]) {
#pragma unroll
  for (int t = 0; t < kRows / 8; ++t) {
    const int n = row / 8 + t;
    const float2 step = scales_of(steps, n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float product = static_cast<float>(sums[4 * t + i]) * weight_step[i / 2];
      acc[4 * n + i] = fmaf(product, i % 2 == 0 ? step.x : step.y, acc[4 * n + i]);
    }
  }
}

template <int kTokens, int kPer, Kind kKind>
struct Int8Consumer {
  // Input rows whose integer sums are held at once, as registers allow.
  static constexpr int kSums = kPer * (kKind == Kind::in_turn ? 2 : 1) * kTokens;
  static constexpr int kChunk = kSums <= 256 ? kTokens : kTokens / 2;
  static constexpr int kChunks = kTokens / kChunk;

  // Stages whose inputs share a step.
  static constexpr std::uint32_t kTogether = kKind == Kind::gated ? kGatedStepCols / kInt8Cols : 1;
  using AnyRing = Int8Ring<kTokens, kInt8Consumers * kPer>;

  AnyRing& ring;
  std::uint32_t consumer;
  int warp;
  int lane;

  // sums = products of the stage's block m and the chunk's input rows, plus sums where `adds`.
  __device__ __forceinline__ void start(const AnyRing& at, int m, int chunk, bool adds,
                                        std::int32_t (&sums)[kChunk / 2]) const {
    const std::uint64_t weights = swizzled_operand(at.weights(consumer * kPer + m));
    const std::uint64_t panel = swizzled_operand(at.panel() + chunk * kChunk * kInt8Cols);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      IntegerProduct<kChunk>::run(sums, weights + kOperandStep * j, panel + kOperandStep * j,
                                  adds || j > 0);
  }

  // acc += products of the ring's next kStages stages, which share a step.
  template <std::uint32_t kStages>
  __device__ __forceinline__ void accumulate_stages(float (&acc)[kPer][kTokens / 2]) {
    AnyRing stages[kStages];
    wait_for_stages(ring, stages);
#pragma unroll
    for (int m = 0; m < kPer; ++m) {
      const std::uint32_t of_rows =
          ring.weight_steps(consumer * kPer + m) + (warp * 16 + lane / 4) * 4;
      const float weight_step[2] = {read_float(of_rows), read_float(of_rows + 32)};
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        std::int32_t sums[kChunk / 2];
        products_fence();
#pragma unroll
        for (std::uint32_t s = 0; s < kStages; ++s) start(stages[s], m, chunk, s > 0, sums);
        products_commit();
        products_wait();
        add_integer_sums<kChunk>(sums, chunk * kChunk, weight_step, ring.steps(), acc[m]);
      }
    }
    let_go<kStages>(ring, lane);
  }

  // acc = products of the ring's next n blocks.
  __device__ __forceinline__ void accumulate(std::uint32_t n, float (&acc)[kPer][kTokens / 2]) {
#pragma unroll
    for (int m = 0; m < kPer; ++m)
#pragma unroll
      for (float& each : acc[m]) each = 0;
    for (std::uint32_t u = kTogether; u <= n; u += kTogether) accumulate_stages<kTogether>(acc);
    if constexpr (kTogether == 2)
      if (n % 2 != 0) accumulate_stages<1>(acc);
  }

  // The same of all n blocks, whose parts of `part` blocks are added in their order.
  __device__ __forceinline__ void accumulate_parts(std::uint32_t n, std::uint32_t part,
                                                   float (&acc)[kPer][kTokens / 2]) {
    float sums[kPer][kTokens / 2];
#pragma unroll
    for (int m = 0; m < kPer; ++m)
#pragma unroll
      for (float& each : acc[m])
        each = 0;  // 0 + x = x but for the sign of 0, which no result shows
    for (std::uint32_t begin = 0; begin < n; begin += part) {
      accumulate(min(part, n - begin), sums);
#pragma unroll
      for (int m = 0; m < kPer; ++m)
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) acc[m][i] += sums[m][i];
    }
  }
};

// All consumers.
__device__ __forceinline__ void consumers_sync() {
  asm volatile("bar.sync 5, 256;\n" ::: "memory");
}

// silu(gate) * up of a tile of 128 columns, rounded to int8 where the next product reads it.
// acc[0]: gate of the consumer's 64 columns, acc[1]: up.
template <int kTokens>
__device__ __forceinline__ void store_int8_products(
    const GemmArgs& a, const Int8Panel& to, const Int8Ring<kTokens, 2 * kInt8Consumers>& ring,
    const Tile& tile, std::uint32_t tile_row, std::uint32_t consumer, int warp, int lane,
    float (&acc)[2][kTokens / 2]) {
  constexpr int kCount = kTokens / 8;
  const float exists = tile.first_block + consumer < a.n_blocks ? 1.0f : 0.0f;
  const float gate_scale = a.parts[0].weight.out_scale;
  const float up_scale = a.parts[1].weight.out_scale * exists;
  float(&values)[kTokens / 2] = acc[0];
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    unsigned largest[2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[4 * n + i] = silu(acc[0][4 * n + i] * gate_scale) * (acc[1][4 * n + i] * up_scale);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[i] = max(__float_as_uint(values[4 * n + i]) & 0x7FFFFFFFu,
                       __float_as_uint(values[4 * n + i + 2]) & 0x7FFFFFFFu);
#pragma unroll
      for (int offset = 4; offset < 32; offset *= 2)
        largest[i] = max(largest[i], __shfl_xor_sync(0xFFFFFFFFu, largest[i], offset));
    }
    if (lane < 4)
      asm volatile("st.shared.v2.u32 [%0], {%1, %2};\n" ::"r"(
                       ring.reached() + ((consumer * 4 + warp) * kTokens + 8 * n + 2 * lane) * 4),
                   "r"(largest[0]), "r"(largest[1])
                   : "memory");
  }
  consumers_sync();
  const std::uint32_t column = tile.first_block * kBlockRows;
  const std::uint32_t row = threadIdx.x - 128;  // of the tile
  if (row < kTokens) {
    unsigned largest = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      unsigned other;
      asm volatile("ld.shared.u32 %0, [%1];\n"
                   : "=r"(other)
                   : "r"(ring.reached() + (w * kTokens + row) * 4)
                   : "memory");
      largest = max(largest, other);
    }
    const Int8Step step(__uint_as_float(largest));
    asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(ring.reached() + row * 4), "f"(step.inverse)
                 : "memory");
    if (tile_row + row < to.n_rows) to.steps[to.block_row(tile_row + row, column)] = step.step;
  }
  consumers_sync();
  const std::uint32_t own_row = tile_row + lane / 4;
  std::int8_t* at =
      to.codes + to.at(own_row, column + consumer * kBlockRows + warp * kUnitRows) + 2 * (lane % 4);
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    const float2 inverse = scales_of(ring.reached(), n);
    unsigned codes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      codes[i] = int8_code(values[4 * n + i], i % 2 == 0 ? inverse.x : inverse.y);
    // Bytes: columns g, g + 8 of one row, then of the next; transposed: columns 2 q, 2 q + 8, 2 q +
    // 1, 2 q + 9 of row g.
    const unsigned pairs = four_codes(codes[0], codes[2], codes[1], codes[3]);
    const unsigned turned = __byte_perm(transposed(pairs), 0, 0x3120);
    asm volatile(
        "{\n.reg .pred below;\n.reg .b16 low, high;\nsetp.lt.u32 below, %0, %1;\n"
        "mov.b32 {low, high}, %3;\n@below st.global.b16 [%2], low;\n"
        "@below st.global.b16 [%2 + 8], high;\n}\n" ::"r"(own_row + 8 * n),
        "r"(to.n_rows), "l"(at + 8 * n * kInt8Cols), "r"(turned)
        : "memory");
  }
  consumers_sync();  // the next tile's are not written while these are read
}

// The same in binary16. `inverses`: 1 over the scales of the products' rows, in shared memory.
template <int kTokens>
__device__ __forceinline__ void store_half_products(const GemmArgs& a, const Panel& to,
                                                    std::uint32_t block, std::uint32_t tile_row,
                                                    int warp, int lane, std::uint32_t inverses,
                                                    const float (&acc)[2][kTokens / 2]) {
  const float gate_scale = a.parts[0].weight.out_scale;
  const float up_scale = a.parts[1].weight.out_scale;
  const std::uint32_t row = tile_row + lane / 4;
  const std::uint32_t col = block * kBlockRows + warp * kUnitRows;
  __half* const places[2] = {to.values + to.at(row, col) + 2 * (lane % 4),
                             to.values + to.at(row, col + 8) + 2 * (lane % 4)};
#pragma unroll
  for (int n = 0; n < kTokens / 8; ++n) {
    const float2 inverse = scales_of(inverses, n);
    const auto product = [&](int i) {
      return silu(acc[0][4 * n + i] * gate_scale) * (acc[1][4 * n + i] * up_scale);
    };
#pragma unroll
    for (int half = 0; half < 2; ++half)
      store_pair(product(2 * half) * inverse.x, product(2 * half + 1) * inverse.y, n, row,
                 to.n_rows, places[half]);
  }
}

// In place of TileScales.
struct NoScales {
  template <typename To>
  __device__ __forceinline__ NoScales(const To&, std::uint32_t) {}
};

// `to`: a panel of either kind, of gated calls.
template <int kTokens, int kPer, Kind kKind, typename To>
__device__ __forceinline__ void consume_int8(const GemmArgs& a, const To& to, const Plan& plan,
                                             Int8Ring<kTokens, kInt8Consumers * kPer> ring) {
  constexpr bool kToHalf = kKind == Kind::gated && std::is_same_v<To, Panel>;
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  Int8Consumer<kTokens, kPer, kKind> at = {ring, consumer, warp, lane};
  wait_for_predecessor();
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(plan, number);
    const std::uint32_t n = int8_units_of<kKind>(a, tile).count;
    const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    std::conditional_t<kToHalf, TileScales<kTokens>, NoScales> product_scales(to, tile_row);
    float acc[kPer][kTokens / 2];
    if constexpr (kKind == Kind::in_turn) {
      at.accumulate_parts(n, a.units_per_split, acc);
    } else {
      at.accumulate(n, acc);
    }
    if constexpr (kToHalf) {
      const std::uint32_t block = tile.first_block + consumer;
      const std::uint32_t inverses = ring.reached() + consumer * kTokens * 4;
      consumer_sync(consumer);  // the tile before is stored
      product_scales.template keep<true>(inverses);
      consumer_sync(consumer);
      if (block < a.n_blocks)
        store_half_products<kTokens>(a, to, block, tile_row, warp, lane, inverses, acc);
    } else if constexpr (kKind == Kind::gated) {
      store_int8_products<kTokens>(a, to, ring, tile, tile_row, consumer, warp, lane, acc);
    } else {
#pragma unroll
      for (int m = 0; m < kPer; ++m) {
        const std::uint32_t block = tile.first_block + consumer * kPer + m;
        if (block >= a.n_blocks) continue;
        if constexpr (kKind == Kind::parts && kPer == 1) {
          if (plan.n_parts > 1) {
            store_part<kTokens>(a, tile, block, warp, lane, acc[0]);
            continue;
          }
        }
        const GemmPart& part = a.part_of(block);
        const ResultRows rows(a, part, block * kBlockRows - part.first_col + warp * kUnitRows,
                              tile_row, lane);
        store_sums<kTokens>(acc[m], rows, ring.ones());
      }
    }
  }
}

#endif

}  // namespace dllm::cuda

// silu(gate) * up of a tile, straight into the panel that the next product reads.
//
// A warp's 16 rows of sums are eight rows of gate and the same eight of up, so a thread has both
// factors of its products: accumulators 4 n and 4 n + 1 are gate, 4 n + 2 and 4 n + 3 up, of row
// lane / 4 and input rows 8 n + 2 (lane % 4) + {0, 1}.
#pragma once

#include "gemm_common.cuh"
#include "gemm_tiles.cuh"

namespace dllm::cuda {

#if defined(DLLM_WARPGROUPS)

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// An 8 x 8 matrix of binary16, of which a lane holds two neighbours of row lane / 4, transposed.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t pair) {
  std::uint32_t out;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out) : "r"(pair));
  return out;
}

/// Of eight columns of rows 8 n to 8 n + 7 from `row`, which is lane / 4 further than the tile's
/// first: a lane has column lane / 4 of two rows, 8 n + 2 (lane % 4) + {0, 1}, and stores two
/// columns of one. `to`: those columns of `row` in a panel of n_rows rows.
__device__ __forceinline__ void store_pair(float first, float second, std::uint32_t n,
                                           std::uint32_t row, std::uint32_t n_rows, __half* to) {
  const __half2 both = __floats2half2_rn(first, second);
  const std::uint32_t words = transposed(*reinterpret_cast<const std::uint32_t*>(&both));
  asm volatile(
      "{\n.reg .pred below;\nsetp.lt.u32 below, %0, %1;\n@below st.global.b32 [%2], %3;\n}\n" ::"r"(
          row + 8 * n),
      "r"(n_rows), "l"(to + 8 * n * kUnitCols), "r"(words)
      : "memory");
}

/// Products of the warp's eight columns from `col`. `scales`: of the tile's input rows, `inverses`:
/// 1 over the products' scales, in shared memory.
template <int kTokens>
__device__ __forceinline__ void store_products(const GemmArgs& a, std::uint32_t tile_row,
                                               std::uint32_t col, int lane, std::uint32_t scales,
                                               std::uint32_t inverses,
                                               const float (&acc)[kTokens / 2]) {
  const float gate_scale = a.parts[0].weight.out_scale;
  const float up_scale = a.parts[1].weight.out_scale;
  const std::uint32_t row = tile_row + lane / 4;
  // Eight rows further, a row's place in its group of eight, and so the swizzle, is the same.
  __half* to = a.products.values + a.products.at(row, col) + 2 * (lane % 4);
#pragma unroll
  for (int n = 0; n < kTokens / 8; ++n) {
    const float2 scale = scales_of(scales, n);
    const float2 inverse = scales_of(inverses, n);
    const float first = silu(acc[4 * n] * (gate_scale * scale.x)) *
                        (acc[4 * n + 2] * (up_scale * scale.x)) * inverse.x;
    const float second = silu(acc[4 * n + 1] * (gate_scale * scale.y)) *
                         (acc[4 * n + 3] * (up_scale * scale.y)) * inverse.y;
    store_pair(first, second, n, row, a.products.n_rows, to);
  }
}

#endif

}  // namespace dllm::cuda

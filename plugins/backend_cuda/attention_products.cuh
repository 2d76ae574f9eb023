// The two products of attention for a tile of keys: scores, and what weighted values add.
//
// Warp...       mma.sync, 16 queries a warp (compute capability 8.0)
// Warpgroup...  wgmma, 64 queries a warpgroup (9.0)
//
// Both hold queries, scores, weights and sums alike: of a warp's 16 queries a lane has rows lane /
// 4 and lane / 4 + 8, and of a product's columns 8 n + 2 (lane % 4) + {0, 1}. They differ in how a
// tile lies in shared memory.
#pragma once

#include "gemm_common.cuh"
#include "tensor_core.cuh"
#include "wgmma.cuh"

namespace dllm::cuda {

// kDim: dimensions, padded; kKeys: keys of a tile.
template <int kDim, int kKeys>
struct WarpProducts {
  static constexpr int kPitch = 2 * kDim + 16;  // bytes: 8 rows' chunks lie in different banks
  static constexpr int kTileBytes = kKeys * kPitch;
  static constexpr int kAlignment = 16;

  /// Place of a 16-byte chunk of a key's row.
  static __device__ __forceinline__ int place(int key, int chunk) {
    return key * kPitch + chunk * 16;
  }
  /// Of a chunk that is `rows` rows (a multiple of 8) further.
  static __device__ __forceinline__ int further(int rows) { return rows * kPitch; }
  static __device__ __forceinline__ void tile_is_there() {}

  /// s[4 n + i] = q k^T; operand(step, q) gives q's operand of 16 dimensions.
  template <typename Operand>
  static __device__ __forceinline__ void scores(std::uint32_t keys, int lane,
                                                const Operand& operand, float (&s)[kKeys / 2]) {
#pragma unroll
    for (float& each : s) each = 0;
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      std::uint32_t q[4];
      operand(step, q);
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        std::uint32_t k[4];
        load_matrices(
            keys + (16 * n + lane % 8 + 8 * (lane / 16)) * kPitch + 32 * step + lane / 8 % 2 * 16,
            k);
        multiply(s + 8 * n, q, k[0], k[1]);
        multiply(s + 8 * n + 4, q, k[2], k[3]);
      }
    }
  }

  /// acc += weights * values.
  static __device__ __forceinline__ void add_values(std::uint32_t values, int lane,
                                                    const std::uint32_t (&weights)[kKeys / 16][4],
                                                    float (&acc)[kDim / 2]) {
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        std::uint32_t v[4];
        load_transposed(values + (16 * step + lane % 16) * kPitch + 32 * n + lane / 16 * 16, v);
        multiply(acc + 8 * n, weights[step], v[0], v[1]);
        multiply(acc + 8 * n + 4, weights[step], v[2], v[3]);
      }
    }
  }
};

// A tile is kDim / 64 blocks of kKeys rows of 128 bytes with 128-byte swizzle.
template <int kDim, int kKeys>
struct WarpgroupProducts {
  static constexpr int kBlockBytes = kKeys * 128;
  static constexpr int kTileBytes = kDim / 64 * kBlockBytes;
  static constexpr int kAlignment = 1024;
  static_assert(kDim % 64 == 0 && kBlockBytes % kAlignment == 0);

  static __device__ __forceinline__ int place(int key, int chunk) {
    return chunk / 8 * kBlockBytes + key * 128 + ((chunk ^ key) & 7) * 16;
  }
  static __device__ __forceinline__ int further(int rows) { return rows * 128; }
  /// Copies of this thread that have arrived become visible to products.
  static __device__ __forceinline__ void tile_is_there() {
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  }

#if defined(DLLM_WARPGROUPS)
  template <typename Operand>
  static __device__ __forceinline__ void scores(std::uint32_t keys, int, const Operand& operand,
                                                float (&s)[kKeys / 2]) {
    products_fence();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      std::uint32_t q[4];
      operand(step, q);
      WarpgroupProduct<kKeys>::run(
          s, q, swizzled_operand(keys + step / 4 * kBlockBytes + step % 4 * 32), step > 0);
    }
    products_commit();
    products_wait();
  }

  static __device__ __forceinline__ void add_values(std::uint32_t values, int,
                                                    const std::uint32_t (&weights)[kKeys / 16][4],
                                                    float (&acc)[kDim / 2]) {
    products_fence();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
      WarpgroupProduct<kDim>::template run<true>(
          acc, weights[step], transposed_operand(values + step * 16 * 128, kBlockBytes), 1);
    products_commit();
    products_wait();
  }
#endif
};

}  // namespace dllm::cuda

// Reading sums of split products: parts in their order, then scales, bias, and what is there.
#pragma once

#include <cstdint>

#include "device_rows.hpp"
#include "gemm_args.hpp"

namespace dllm::cuda {

__device__ __forceinline__ float scale_of(const Sums& sums, std::uint32_t row) {
  return sums.row_scale ? sums.scale * sums.row_scale[row] : sums.scale;
}

struct Eight {
  float values[8];
};

__device__ __forceinline__ Eight eight_at(const float* from) {
  const float4 low = reinterpret_cast<const float4*>(from)[0];
  const float4 high = reinterpret_cast<const float4*>(from)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
__device__ __forceinline__ void add(Eight& total, const Eight& part) {
#pragma unroll
  for (int i = 0; i < 8; ++i) total.values[i] += part.values[i];
}

/// Parts of eight columns, from a multiple of 8, added; the first part's lie at `parts`. `kParts`:
/// how many there are, all read before the first is added; 0: any number.
template <int kParts>
__device__ __forceinline__ Eight total_of(const Sums& sums, const float* parts) {
  if constexpr (kParts > 0) {
    Eight all[kParts];
#pragma unroll
    for (int s = 0; s < kParts; ++s) all[s] = eight_at(parts + s * sums.part_floats);
#pragma unroll
    for (int s = 1; s < kParts; ++s) add(all[0], all[s]);
    return all[0];
  } else {
    Eight total = eight_at(parts);
#pragma unroll 1
    for (std::uint32_t s = 1; s < sums.n; ++s) add(total, eight_at(parts += sums.part_floats));
    return total;
  }
}

}  // namespace dllm::cuda

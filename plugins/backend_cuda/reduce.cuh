// Reductions over a block, in a fixed order: the same bits every run.
#pragma once

#include <cstdint>

namespace dllm::cuda {

struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// NaN wins, so that it is not lost.
struct Larger {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/// Every thread gets the result. `shared`: 32 elements; may be used again after the next barrier.
template <typename T, typename Op>
__device__ T reduce_block(T value, T identity, Op op, T* shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int n_warps = static_cast<int>(blockDim.x) / 32;
  for (int offset = 16; offset > 0; offset /= 2)
    value = op(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
  __syncthreads();  // earlier readers of `shared` are done
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  T total = lane < n_warps ? shared[lane] : identity;
  for (int offset = 16; offset > 0; offset /= 2)
    total = op(total, __shfl_xor_sync(0xFFFFFFFFu, total, offset));
  return total;
}

}  // namespace dllm::cuda

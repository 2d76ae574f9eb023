// From rows of q, k and v to what attention reads: heads, rotated, in binary16.
//
// A head's row is divided by a power of two of its own that brings its largest value into [1, 2),
// so nothing leaves binary16's range; attention multiplies scores and values back.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "device_rows.hpp"
#include "dllm/backend.hpp"

namespace dllm::cuda {

/// Rows of every head of q, k or v. Device pointers, borrowed.
struct HeadRows {
  __half* values = nullptr;  // [n_heads][n_rows][stride], 0 beyond the head's dimensions
  float* scale = nullptr;    // [n_heads][n_rows], powers of two; NaN: the row is not finite
  std::uint32_t n_rows = 0;
  std::uint32_t n_heads = 0;
  std::uint32_t stride = 0;
  /// [groups_of(n_heads)][n_rows]: the largest scale of a group of heads, NaN where one is; null:
  /// not wanted. Written where are_whole().
  float* group_scale = nullptr;

  static constexpr std::uint32_t kGroup = 4;
  __host__ __device__ static constexpr std::uint32_t groups_of(std::uint32_t heads) {
    return (heads + kGroup - 1) / kGroup;
  }
};

/// RopeParams with its angles looked up, or nothing to do (no table, no norm).
struct Rotation {
  const float2* table = nullptr;  // [row][n_rot / 2], cosine and sine
  std::uint32_t n_rot = 0;
  bool neox = false;
  const float* head_norm = nullptr;  // [head_dim] or null
  float head_norm_eps = 0;
};

/// One of the matrices of a launch: rows `from` with their sums, to heads `to`, or in place where
/// `to` has no values (then there are no sums). Sums replace what the rows hold, and are not stored
/// there.
struct HeadJob {
  Rows from;
  std::uint32_t n_heads = 0;
  Rotation rotation;
  HeadRows to;
  Sums sums;
};

constexpr int kMostHeadJobs = 3;
struct HeadJobs {
  HeadJob job[kMostHeadJobs];
  int count = 0;
  std::uint32_t head_dim = 0;
};

/// table[r][m]: cosine and sine of positions[r] * scale * theta^(-2 m / n_rot), from angles in
/// double.
void launch_angles(const std::int32_t* positions, std::uint32_t n_rows, const RopeParams& params,
                   float2* table, cudaStream_t stream);

/// Heads of up to 128 dimensions that rotate whole or not at all: the usual case.
bool are_whole(const HeadJobs& jobs);
/// All jobs in one launch. Heads have at most 256 dimensions.
void launch_heads(const HeadJobs& jobs, cudaStream_t stream);

}  // namespace dllm::cuda

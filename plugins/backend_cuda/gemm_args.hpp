// What the product kernels are given.
#pragma once

#include <cstdint>

#include "gemm.hpp"

namespace dllm::cuda {

/// One matrix of a call; its rows are columns [first_col, first_col + n_rows) of the call's
/// results.
struct GemmPart {
  Packed weight;
  float* to;
  std::uint64_t stride;
  const float* bias;
  std::uint32_t first_col;  // a multiple of kBlockRows
};

struct GemmArgs {
  GemmPart parts[kMostProducts];
  std::uint32_t n_parts;
  std::uint32_t n_blocks;  // of all parts
  Panel panel;
  float* work;               // parts of split products, as Sums has them
  std::uint32_t block_rows;  // of a block of 64 columns there
  std::uint32_t n_splits;
  std::uint32_t units_per_split;
  std::uint32_t n_consumers;  // of a tile whose inputs are split; gemm_sm90.cu
  Store store;
  Panel products;  // of gated calls: where they go

  __host__ __device__ std::uint32_t n_units() const { return parts[0].weight.n_units(); }
  /// The part that holds block number `block`.
  __host__ __device__ const GemmPart& part_of(std::uint32_t block) const {
    std::uint32_t i = 0;
    while (i + 1 < n_parts && block * kBlockRows >= parts[i + 1].first_col) ++i;
    return parts[i];
  }
};

/// Weight rows that a thread block of each kernel takes.
constexpr std::uint32_t kGemmRowsSm80 = 128;
constexpr std::uint32_t kGemmRowsSm90 = 192;  // the wider of its tiles
/// Input rows of a tile.
constexpr std::uint32_t kMostTokens = 176;
/// Parts of the inputs.
constexpr std::uint32_t kMostSplits = 6;
/// What it costs that the parts of a tile are stored and added, in units of 64 inputs.
constexpr std::uint32_t kPartUnits = 8;

void launch_gemm_sm80(const GemmArgs& args, cudaStream_t stream);
/// Whether parts of the inputs are left to be added.
bool launch_gemm_sm90(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream);
/// parts[0]: gate, parts[1]: up, of one form and as many rows; silu(gate) * up goes to `products`.
void launch_gated_sm90(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream);

}  // namespace dllm::cuda

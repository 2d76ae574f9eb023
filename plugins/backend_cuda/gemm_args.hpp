// What a product kernel is given.
#pragma once

#include <cstdint>

#include "gemm.hpp"

namespace dllm::cuda {

struct GemmArgs {
  Packed weight;
  Panel panel;
  float* to;
  std::uint64_t stride;
  const float* bias;
  float* partials;  // [split][n_rows][weight rows], null: one part
  std::uint32_t units_per_split;
  Store store;
};

/// Weight rows a block of the product kernel takes.
constexpr std::uint32_t kGemmBlockRows = 128;

/// The product itself (gemm_kernel.cu): grid over input rows, weight rows and parts.
void launch_gemm_kernel(const GemmArgs& args, std::uint32_t n_splits, cudaStream_t stream);

}  // namespace dllm::cuda

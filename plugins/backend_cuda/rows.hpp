// Kernels that work row by row: look-up, norm, gate, copies.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device_rows.hpp"
#include "dllm/backend.hpp"
#include "gemm.hpp"

namespace dllm::cuda {

/// out[r] = table[ids[r]]; an id outside the table gives NaN.
void launch_embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                  std::uint32_t n_table_rows, const std::int32_t* ids, Rows out,
                  cudaStream_t stream);

/// Powers of two for rows of products of two results each, before they are known: where `scale` is
/// given, a row's becomes the one that brings `factor` times the square of its length into
/// [2^14, 2^15). `factor`: of the lengths of two matrices' longest rows.
struct ProductScale {
  float* scale = nullptr;
  double factor = 0;
};

/// Panel of RMSNorm(x) (`norm` not null; x * w / sqrt(mean(x^2) + eps)) or of x itself, once its
/// sums are added: then x's rows hold them. `products`: of two results of the panel's row.
void launch_prepare(const SummedRows& x, const float* norm, float eps, Panel panel,
                    cudaStream_t stream, ProductScale products = {});

/// Panel of silu(gate) * up.
void launch_swiglu(Rows gate, Rows up, Panel panel, cudaStream_t stream);

/// to[i] = from[rows[i]].
void launch_copy_rows(Rows from, const std::int32_t* rows, Rows to, cudaStream_t stream);

}  // namespace dllm::cuda

// Kernels that work row by row: look-up and copies.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device_rows.hpp"
#include "dllm/dtype.hpp"

namespace dllm::cuda {

/// out[r] = table[ids[r]]; an id outside the table gives NaN.
void launch_embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                  std::uint32_t n_table_rows, const std::int32_t* ids, Rows out,
                  cudaStream_t stream);

/// to[i] = from[rows[i]].
void launch_copy_rows(Rows from, const std::int32_t* rows, Rows to, cudaStream_t stream);

}  // namespace dllm::cuda

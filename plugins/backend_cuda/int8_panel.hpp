// Activations as int8, one step for 128 or 256 inputs of a row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "gemm.hpp"

namespace dllm::cuda {

/// Device pointers, borrowed. Blocks of 128 inputs, each holding all rows: of codes 128 bytes a
/// row, with the 16-byte chunk c of row r at place c ^ (r % 8) (128-byte swizzle), and a float a
/// row.
struct Int8Panel {
  static constexpr std::uint32_t kSpareRows = 256;  // a tile may be read past the last row

  std::int8_t* codes = nullptr;
  float* steps = nullptr;
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
  std::uint32_t padded_rows = 0;        // of a block: all rows, rounded up to 8
  std::uint32_t step_cols = kInt8Cols;  // inputs that share a step: or kGatedStepCols
  std::uint32_t first_row = 0;          // the product takes rows [first_row, first_row + n_rows)

  /// Rows of both arrays, all blocks together.
  static constexpr std::uint64_t block_rows(std::uint64_t rows, std::uint32_t cols) {
    return std::uint64_t{Panel::padded(static_cast<std::uint32_t>(rows))} * int8_blocks(cols) +
           kSpareRows;
  }
  __host__ __device__ std::uint64_t block_row(std::uint32_t row, std::uint32_t k) const {
    return static_cast<std::uint64_t>(k / kInt8Cols) * padded_rows + row;
  }
  /// Place of 16 inputs from a multiple of 16.
  __host__ __device__ std::uint64_t at(std::uint32_t row, std::uint32_t k) const {
    return block_row(row, k) * kInt8Cols + ((k / 16 % 8) ^ (row % 8)) * 16;
  }
};

}  // namespace dllm::cuda

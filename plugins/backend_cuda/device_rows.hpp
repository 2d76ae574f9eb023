// Rows on the device, and sums of split products that their reader adds. Nothing here calls CUDA.
#pragma once

#include <cstdint>

namespace dllm::cuda {

/// A [n_rows, n_cols] f32 matrix on the device.
struct Rows {
  float* values = nullptr;
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
};

/// Results of a product whose inputs were split, not yet added. Of row r and column c they are
///
///   (adds ? what rows hold : 0) + ((p_0 + p_1) + ...) * scale * row_scale[r] + bias[c]
///
/// with part s of them at parts[s * part_floats + place(r, c)]. Device pointers, borrowed.
struct Sums {
  static constexpr std::uint32_t kBlockCols = 64;

  const float* parts = nullptr;
  std::uint64_t part_floats = 0;
  std::uint32_t n = 0;           // of parts; 0: there is nothing to add
  std::uint32_t block_rows = 0;  // of a block of 64 columns
  bool adds = false;
  float scale = 1;
  const float* row_scale = nullptr;  // null: 1
  const float* bias = nullptr;       // null: 0

  /// Eight columns from a multiple of 8 are together.
  constexpr std::uint64_t place(std::uint32_t row, std::uint32_t col) const {
    return (static_cast<std::uint64_t>(col / kBlockCols) * block_rows + row) * kBlockCols +
           col % kBlockCols;
  }
};

/// Rows, and what is to be added to them by whoever reads them.
struct SummedRows {
  Rows rows;
  Sums sums;
};

}  // namespace dllm::cuda

// Products of activations with packed weights, one tile of kTileRows outputs at a time.
//
// A weight block is unpacked once and multiplied with every row; an item is one tile of one weight,
// so its whole input streams through the nearest caches while the weights are read once in order.
//
// Order of accumulation of an element: blocks of kBlockCols inputs ascending, groups ascending
// (codes) or inputs ascending (floats). It depends on nothing but the weight's shape and type.
#pragma once

#include <cstdint>

#include "kernels.hpp"
#include "memory.hpp"
#include "weight.hpp"

namespace dllm::cpu {

/// One input, prepared for all products that read it: codes for block-quantised weights, f32 for
/// the others. Both lie group after group of kGroupCols inputs, rows side by side in a group:
/// groups[g * n_rows + r], values[(g * n_rows + r) * kGroupCols + k]; inputs beyond n_cols are 0.
struct Panel {
  ActivationGroup* groups = nullptr;  ///< null: not prepared
  float* values = nullptr;            ///< likewise
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;

  std::uint32_t n_groups() const noexcept { return (n_cols + kGroupCols - 1) / kGroupCols; }
};

/// What one thread needs while it works on a tile.
struct TileScratch {
  CodeTile codes;
  alignas(64) float floats[kBlockCols][kTileRows];
};

/// How weights are used: block-quantised ones as integer codes, or everything as f32.
enum class ActivationMode { int8, f32 };

/// Whether products with `weight` read Panel::groups (else Panel::values).
inline bool uses_codes(const Matrix& weight, ActivationMode mode) {
  return mode == ActivationMode::int8 && weight.codes().has_value();
}

/// Operations of all products with `n_rows` rows, a multiply-add counts 2.
inline double products(const Matrix& weight, std::uint32_t n_rows) {
  return 2.0 * weight.n_rows() * weight.n_cols() * n_rows;
}

/// acc[r * kTileRows + i] = sum_k W[tile * kTileRows + i, k] x[first_row + r, k] for r < n_rows.
/// Lanes of rows that the last tile does not have are 0. acc: 64-byte aligned, owner the caller.
void multiply_tile(const Kernels& kernels, ActivationMode mode, const Matrix& weight,
                   std::uint32_t tile, const Panel& panel, std::uint32_t first_row,
                   std::uint32_t n_rows, TileScratch& scratch, float* acc);

}  // namespace dllm::cpu

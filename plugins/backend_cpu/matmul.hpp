// Products of activations with packed weights, one tile of kTileRows outputs at a time.
//
// A weight block is unpacked once and multiplied with every row; an item is one tile of one weight,
// so its whole input streams through the nearest caches while the weights are read once in order.
//
// Order of accumulation of an element: blocks of kBlockCols inputs ascending; inside a block groups
// ascending (codes), inputs ascending (floats) or exact integers (fast products, scaled blocks). It
// depends on nothing but the weight's shape and type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "block_kernels.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "weight.hpp"

namespace dllm::cpu {

/// One input, prepared for all products that read it, in the forms they need. Groups and values lie
/// group after group of kGroupCols inputs, rows side by side in a group: groups[g * n_rows + r],
/// values[(g * n_rows + r) * kGroupCols + k]; inputs beyond n_cols are 0. Blocks likewise, of
/// kBlockCols inputs.
struct Panel {
  ActivationGroup* groups = nullptr;         ///< null: not prepared
  ActivationGroup* residuals = nullptr;      ///< of what the groups' codes leave; likewise
  float* values = nullptr;                   ///< likewise
  FastBlock blocks = {};                     ///< likewise: .codes is null
  bool in_tiles = false;                     ///< codes of `blocks`: FastKernels::in_tiles
  ActivationBlock* scaled_blocks = nullptr;  ///< scaled_blocks[b * n_rows + r]
  std::uint16_t* brains = nullptr;           ///< BF16: brains[(b * n_rows + r) * kBlockCols + k]
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;

  /// The view of one row and those behind it in one block.
  FastBlock block(std::uint32_t index, std::uint32_t row) const noexcept {
    const std::uint64_t cell = std::uint64_t{index} * block_rows() + row;
    const std::uint64_t in_tile = in_tiles ? row % kCodeRows : 0;
    return {blocks.codes + (cell - in_tile) * kBlockCols + in_tile * kCodeCols,
            blocks.scales + cell, blocks.sums + cell};
  }

  /// Where the BF16 values of a group of one row lie.
  std::uint16_t* brain_group(std::uint32_t group, std::uint32_t row) const noexcept {
    const std::uint64_t block = group / (kBlockCols / kGroupCols);
    return brains + (block * n_rows + row) * kBlockCols + group * kGroupCols % kBlockCols;
  }

  /// Rows that a block has room for: whole tiles.
  std::uint32_t block_rows() const noexcept {
    return (n_rows + kCodeRows - 1) / kCodeRows * kCodeRows;
  }
  std::uint32_t n_groups() const noexcept { return (n_cols + kGroupCols - 1) / kGroupCols; }
  std::uint32_t n_blocks() const noexcept { return (n_cols + kBlockCols - 1) / kBlockCols; }
};

/// What one thread needs while it works on a tile.
struct TileScratch {
  CodeTile codes;
  BlockTile block;
  BrainTile brains;
  alignas(64) float floats[kBlockCols][kTileRows];
};

/// How products are computed; the backend option `products`.
///
/// fast    K types through FastKernels and BF16 weights through BrainKernels where the instruction
///         set has them, other block-quantised weights with int8 activations of one scale per 32
/// exact   block-quantised weights as they are, with int8 activations of one scale per 32; types
///         whose own blocks have 32 inputs with another 8 bits of what those leave
/// f32     everything in f32
enum class ProductMode { fast, exact, f32 };

/// What computes products.
struct Multiplier {
  const Kernels& kernels;
  const FastKernels* fast;     ///< null: none, or not wanted
  const BrainKernels* brains;  ///< likewise
  ProductMode mode;
};

/// The part of a Panel that products with a weight read.
enum class InputForm { groups, fine_groups, values, blocks, scaled_blocks, brains };
InputForm input_form(const Multiplier& multiplier, const Matrix& weight);

/// Consecutive tiles of a weight that one item multiplies.
struct TileRange {
  std::uint32_t first;
  std::uint32_t count;
};

/// Cuts the tiles of a weight into ranges: of one tile, or of several that share a pass over the
/// rows where the whole input would be read from the third-level cache for each.
class TilePasses {
 public:
  TilePasses(const Multiplier& multiplier, const Matrix& weight, std::uint32_t n_rows);
  std::uint32_t tiles_each() const noexcept { return pass_tiles_; }
  std::uint32_t count() const noexcept { return (n_tiles_ + pass_tiles_ - 1) / pass_tiles_; }
  TileRange operator[](std::uint32_t pass) const noexcept {
    const std::uint32_t first = pass * pass_tiles_;
    return {first, std::min(pass_tiles_, n_tiles_ - first)};
  }

 private:
  std::uint32_t n_tiles_;
  std::uint32_t pass_tiles_;
};
/// Most tiles that a pass can have.
std::uint32_t most_pass_tiles(const Multiplier& multiplier);

/// For tile t of the range and r < n_rows, with row i = (tiles.first + t) * kTileRows + j of W:
///   acc[(t * n_rows + r) * kTileRows + j] = sum_k W[i, k] x[first_row + r, k].
/// Lanes of rows that the last tile does not have are 0. first_row: a multiple of kCodeRows. acc:
/// 64-byte aligned, owner the caller.
void multiply_tiles(const Multiplier& multiplier, const Matrix& weight, TileRange tiles,
                    const Panel& panel, std::uint32_t first_row, std::uint32_t n_rows,
                    TileScratch& scratch, float* acc);

}  // namespace dllm::cpu

#include "matmul.hpp"

#include <algorithm>
#include <cstring>

#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

// Rows of the accumulator that stay in the first-level cache together with a weight block.
constexpr std::uint32_t kRowsAtOnce = 128;
// Of codes of an input that surely stay in the second-level cache beside accumulators and weights:
// processors with AMX have 2 MiB of it.
constexpr std::uint64_t kNearBytes = 1u << 20;

// Multiplying a block takes long enough to bring the next one closer.
void prefetch_next(const Matrix& weight, const WeightBlock& block) {
  const std::uint64_t bytes = kTileRows * weight.block_bytes();
  for (std::uint64_t at = 0; at < bytes; at += 64)
    __builtin_prefetch(block.data + bytes + at, 0, 2);  // to the second-level cache
}

// w = scale * code + minimum, as f32.
void expand_codes(const CodeTile& tile, std::uint32_t n_cols, float (*to)[kTileRows]) {
  const std::uint32_t group_cols = tile.half_groups ? 16 : 32;
  for (std::uint32_t k = 0; k < n_cols; ++k) {
    const float* scale = tile.scale[k / group_cols];
    const float* minimum = tile.minimum[k / group_cols];
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      const std::uint8_t byte = tile.codes[k / 4][row][k % 4];
      const int code = tile.is_signed ? static_cast<std::int8_t>(byte) : byte;
      to[k][row] = scale[row] * static_cast<float>(code) + minimum[row];
    }
  }
}

// A block as f32, [k][row]: in scratch, or as it is stored.
const float* unpack_floats(const Kernels& kernels, const Matrix& weight, const WeightBlock& block,
                           TileScratch& scratch) {
  if (weight.dtype() == DType::f32) return reinterpret_cast<const float*>(block.data);
  if (!weight.codes()) {
    kernels.widen_floats(static_cast<FloatType>(weight.dtype()), block.data,
                         block.n_cols * kTileRows, scratch.floats[0]);
  } else {
    kernels.unpack_codes(*weight.codes(), block, scratch.codes);
    expand_codes(scratch.codes, block.n_cols, scratch.floats);
  }
  return scratch.floats[0];
}

// The rows of a panel that a call multiplies.
struct PanelRows {
  const Panel& panel;
  std::uint32_t first;
  std::uint32_t n;
};

// Calls multiply(first cell, number of rows, accumulator) for stretches of rows whose accumulators
// stay close. A cell is a row of the block's first group.
template <typename Multiply>
void for_stretches(const PanelRows& rows, std::uint32_t block, float* acc, Multiply multiply) {
  const std::uint64_t first_group = std::uint64_t{block} * (kBlockCols / kGroupCols);
  for (std::uint32_t r = 0; r < rows.n; r += kRowsAtOnce)
    multiply(first_group * rows.panel.n_rows + rows.first + r, std::min(kRowsAtOnce, rows.n - r),
             acc + std::uint64_t{r} * kTileRows);
}

// With `residuals` a second product of the same weights adds what the first one's activations lack.
void multiply_groups(const Kernels& kernels, const Matrix& weight, std::uint32_t tile,
                     const PanelRows& rows, const ActivationGroup* residuals, CodeTile& codes,
                     float* acc) {
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    const WeightBlock block = weight.block(tile, index);
    prefetch_next(weight, block);
    kernels.unpack_codes(*weight.codes(), block, codes);
    for_stretches(rows, index, acc, [&](std::uint64_t cell, std::uint32_t n, float* out) {
      kernels.multiply_codes(codes, rows.panel.groups + cell, rows.panel.n_rows, n, out);
      if (residuals) kernels.multiply_codes(codes, residuals + cell, rows.panel.n_rows, n, out);
    });
  }
}

void multiply_values(const Kernels& kernels, const Matrix& weight, std::uint32_t tile,
                     const PanelRows& rows, TileScratch& scratch, float* acc) {
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    const WeightBlock block = weight.block(tile, index);
    prefetch_next(weight, block);
    const float* weights = unpack_floats(kernels, weight, block, scratch);
    for (std::uint32_t k = 0; k < block.n_cols; k += kFloatCols)
      for_stretches(rows, index, acc, [&](std::uint64_t cell, std::uint32_t n, float* out) {
        const float* values =
            rows.panel.values + cell * kGroupCols + std::uint64_t{k} * rows.panel.n_rows;
        kernels.multiply_floats(weights + std::uint64_t{k} * kTileRows,
                                std::min(kFloatCols, block.n_cols - k), values, rows.panel.n_rows,
                                n, out);
      });
  }
}

void multiply_scaled_blocks(const BlockKernels& kernels, const Matrix& weight, std::uint32_t tile,
                            const PanelRows& rows, BlockTile& codes, float* acc) {
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    const WeightBlock block = weight.block(tile, index);
    prefetch_next(weight, block);
    kernels.unpack(*weight.codes(), block, codes);
    const ActivationBlock* first =
        rows.panel.scaled_blocks + std::uint64_t{index} * rows.panel.n_rows + rows.first;
    kernels.multiply(codes, first, rows.n, acc);
  }
}

void multiply_fast(const Multiplier& multiplier, const Matrix& weight, TileRange tiles,
                   const PanelRows& rows, CodeTile& codes, float* acc) {
  const FastKernels& fast = *multiplier.fast;
  fast.enter();
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index)
    for (std::uint32_t i = 0; i < tiles.count; ++i) {
      const WeightBlock block = weight.block(tiles.first + i, index);
      prefetch_next(weight, block);
      fast.unpack(*weight.codes(), block, codes);
      fast.multiply(codes, rows.panel.block(index, rows.first), rows.n,
                    acc + std::uint64_t{i} * rows.n * kTileRows);
    }
  fast.leave();
}

void multiply_brains(const BrainKernels& kernels, const Matrix& weight, std::uint32_t tile,
                     const PanelRows& rows, BrainTile& brains, float* acc) {
  kernels.enter();
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    const WeightBlock block = weight.block(tile, index);
    prefetch_next(weight, block);
    kernels.unpack(block, brains);
    kernels.multiply(brains, rows.panel.brain_group(index * (kBlockCols / kGroupCols), rows.first),
                     rows.n, acc);
  }
  kernels.leave();
}

}  // namespace

InputForm input_form(const Multiplier& multiplier, const Matrix& weight) {
  if (multiplier.brains && weight.dtype() == DType::bf16) return InputForm::brains;
  if (multiplier.mode == ProductMode::f32 || !weight.codes()) return InputForm::values;
  if (multiplier.fast && multiplier.fast->takes(*weight.codes())) return InputForm::blocks;
  const BlockKernels* blocks = multiplier.kernels.blocks;
  if (blocks && blocks->takes(*weight.codes())) return InputForm::scaled_blocks;
  // Of these llama.cpp rounds activations as `groups` do, so those alone would be no better.
  const bool small_blocks = dtype_info(weight.dtype()).block_size == kGroupCols;
  return multiplier.mode == ProductMode::exact && small_blocks ? InputForm::fine_groups
                                                               : InputForm::groups;
}

TilePasses::TilePasses(const Multiplier& multiplier, const Matrix& weight, std::uint32_t n_rows)
    : n_tiles_(weight.n_tiles()), pass_tiles_(1) {
  const bool is_long = std::uint64_t{n_rows} * weight.n_cols() > kNearBytes;
  if (is_long && input_form(multiplier, weight) == InputForm::blocks)
    pass_tiles_ = multiplier.fast->pass_tiles;
}

std::uint32_t most_pass_tiles(const Multiplier& multiplier) {
  return multiplier.fast ? multiplier.fast->pass_tiles : 1;
}

void multiply_tiles(const Multiplier& multiplier, const Matrix& weight, TileRange tiles,
                    const Panel& panel, std::uint32_t first_row, std::uint32_t n_rows,
                    TileScratch& scratch, float* acc) {
  const std::uint64_t tile_floats = std::uint64_t{n_rows} * kTileRows;
  std::memset(acc, 0, sizeof(float) * tile_floats * tiles.count);
  const Kernels& kernels = multiplier.kernels;
  const PanelRows rows = {panel, first_row, n_rows};
  DLLM_ASSERT(first_row % kCodeRows == 0);
  const InputForm form = input_form(multiplier, weight);
  if (form == InputForm::blocks)
    return multiply_fast(multiplier, weight, tiles, rows, scratch.codes, acc);
  for (std::uint32_t i = 0; i < tiles.count; ++i, acc += tile_floats) {
    const std::uint32_t tile = tiles.first + i;
    if (form == InputForm::groups || form == InputForm::fine_groups) {
      const ActivationGroup* residuals = form == InputForm::groups ? nullptr : panel.residuals;
      multiply_groups(kernels, weight, tile, rows, residuals, scratch.codes, acc);
    } else if (form == InputForm::values) {
      multiply_values(kernels, weight, tile, rows, scratch, acc);
    } else if (form == InputForm::brains) {
      multiply_brains(*multiplier.brains, weight, tile, rows, scratch.brains, acc);
    } else {
      multiply_scaled_blocks(*kernels.blocks, weight, tile, rows, scratch.block, acc);
    }
  }
}

}  // namespace dllm::cpu

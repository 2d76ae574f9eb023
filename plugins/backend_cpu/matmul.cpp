#include "matmul.hpp"

#include <algorithm>
#include <cstring>

#include "dllm/quant.hpp"

namespace dllm::cpu {
namespace {

// Rows of the accumulator that stay in the first-level cache together with a weight block.
constexpr std::uint32_t kRowsAtOnce = 128;
// Of codes of an input that surely stay in the second-level cache beside accumulators and weights:
// processors with AMX have 2 MiB of it.
constexpr std::uint64_t kNearBytes = 1u << 20;

void widen(const Kernels& kernels, DType dtype, const std::uint8_t* from, std::uint32_t n,
           float* to) {
  if (dtype == DType::f16) {
    kernels.rows.widen_halves(from, n, to);
  } else if (dtype == DType::f32) {
    std::memcpy(to, from, n * sizeof(float));
  } else {
    decode_row(dtype, {reinterpret_cast<const std::byte*>(from), n * dtype_info(dtype).block_bytes},
               {to, n});
  }
}

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

// A block as f32, floats[k][row].
void unpack_floats(const Kernels& kernels, const Matrix& weight, const WeightBlock& block,
                   TileScratch& scratch) {
  if (!weight.codes()) {
    widen(kernels, weight.dtype(), block.data, block.n_cols * kTileRows, scratch.floats[0]);
  } else {
    kernels.unpack_codes(*weight.codes(), block, scratch.codes);
    expand_codes(scratch.codes, block.n_cols, scratch.floats);
  }
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

void multiply_groups(const Kernels& kernels, const Matrix& weight, std::uint32_t tile,
                     const PanelRows& rows, CodeTile& codes, float* acc) {
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    const WeightBlock block = weight.block(tile, index);
    prefetch_next(weight, block);
    kernels.unpack_codes(*weight.codes(), block, codes);
    for_stretches(rows, index, acc, [&](std::uint64_t cell, std::uint32_t n, float* out) {
      kernels.multiply_codes(codes, rows.panel.groups + cell, rows.panel.n_rows, n, out);
    });
  }
}

void multiply_values(const Kernels& kernels, const Matrix& weight, std::uint32_t tile,
                     const PanelRows& rows, TileScratch& scratch, float* acc) {
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    const WeightBlock block = weight.block(tile, index);
    prefetch_next(weight, block);
    unpack_floats(kernels, weight, block, scratch);
    for_stretches(rows, index, acc, [&](std::uint64_t cell, std::uint32_t n, float* out) {
      const float* values = rows.panel.values + cell * kGroupCols;
      for (std::uint32_t k = 0; k < block.n_cols; k += kGroupCols)
        kernels.multiply_add(n, std::min(kGroupCols, block.n_cols - k), kTileRows,
                             values + std::uint64_t{k} * rows.panel.n_rows, kGroupCols,
                             scratch.floats[k], kTileRows, out, kTileRows);
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

// llama.cpp multiplies these with activations of one scale per 256 as well; the others have a scale
// per 32, of which requantising would lose more than the activations do.
bool is_k_type(CodeType type) {
  switch (type) {
    case CodeType::q2_k:
    case CodeType::q3_k:
    case CodeType::q4_k:
    case CodeType::q5_k:
    case CodeType::q6_k:
      return true;
    default:
      return false;
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

}  // namespace

InputForm input_form(const Multiplier& multiplier, const Matrix& weight) {
  if (multiplier.f32 || !weight.codes()) return InputForm::values;
  if (multiplier.fast && is_k_type(*weight.codes())) return InputForm::blocks;
  const BlockKernels* blocks = multiplier.kernels.blocks;
  return blocks && blocks->takes(*weight.codes()) ? InputForm::scaled_blocks : InputForm::groups;
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
  const InputForm form = input_form(multiplier, weight);
  if (form == InputForm::blocks)
    return multiply_fast(multiplier, weight, tiles, rows, scratch.codes, acc);
  for (std::uint32_t i = 0; i < tiles.count; ++i, acc += tile_floats) {
    const std::uint32_t tile = tiles.first + i;
    if (form == InputForm::groups) {
      multiply_groups(kernels, weight, tile, rows, scratch.codes, acc);
    } else if (form == InputForm::values) {
      multiply_values(kernels, weight, tile, rows, scratch, acc);
    } else {
      multiply_scaled_blocks(*kernels.blocks, weight, tile, rows, scratch.block, acc);
    }
  }
}

}  // namespace dllm::cpu

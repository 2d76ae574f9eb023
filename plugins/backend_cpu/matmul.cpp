#include "matmul.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "dllm/quant.hpp"

namespace dllm::cpu {
namespace {

// Rows of the accumulator that stay in the first-level cache together with a weight block.
constexpr std::uint32_t kRowsAtOnce = 128;

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

void multiply_float_block(const Kernels& kernels, const WeightBlock& block, const float* values,
                          std::uint64_t group_stride, std::uint32_t n_rows, TileScratch& scratch,
                          float* acc) {
  for (std::uint32_t k = 0; k < block.n_cols; k += kGroupCols)
    kernels.multiply_add(n_rows, std::min(kGroupCols, block.n_cols - k), kTileRows,
                         values + k / kGroupCols * group_stride, kGroupCols, scratch.floats[k],
                         kTileRows, acc, kTileRows);
}

}  // namespace

void multiply_tile(const Kernels& kernels, ActivationMode mode, const Matrix& weight,
                   std::uint32_t tile, const Panel& panel, std::uint32_t first_row,
                   std::uint32_t n_rows, TileScratch& scratch, float* acc) {
  std::memset(acc, 0, sizeof(float) * kTileRows * n_rows);
  const std::optional<CodeType> codes =
      mode == ActivationMode::int8 ? weight.codes() : std::nullopt;
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    const WeightBlock block = weight.block(tile, index);
    if (codes) {
      kernels.unpack_codes(*codes, block, scratch.codes);
    } else {
      unpack_floats(kernels, weight, block, scratch);
    }
    const std::uint64_t first_group = index * (kBlockCols / kGroupCols);
    for (std::uint32_t r = 0; r < n_rows; r += kRowsAtOnce) {
      const std::uint32_t rows = std::min(kRowsAtOnce, n_rows - r);
      const std::uint64_t at = first_group * panel.n_rows + first_row + r;
      float* out = acc + static_cast<std::uint64_t>(r) * kTileRows;
      if (codes) {
        kernels.multiply_codes(scratch.codes, panel.groups + at, panel.n_rows, rows, out);
      } else {
        multiply_float_block(kernels, block, panel.values + at * kGroupCols,
                             static_cast<std::uint64_t>(panel.n_rows) * kGroupCols, rows, scratch,
                             out);
      }
    }
  }
}

}  // namespace dllm::cpu

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

void multiply_fast(const Multiplier& multiplier, const Matrix& weight, std::uint32_t tile,
                   const Panel& panel, std::uint32_t first_row, std::uint32_t n_rows,
                   CodeTile& codes, float* acc) {
  const FastKernels& fast = *multiplier.fast;
  fast.enter();
  for (std::uint32_t index = 0; index < weight.n_blocks(); ++index) {
    fast.unpack(*weight.codes(), weight.block(tile, index), codes);
    fast.multiply(codes, panel.block(index, first_row), n_rows, acc);
  }
  fast.leave();
}

}  // namespace

InputForm input_form(const Multiplier& multiplier, const Matrix& weight) {
  if (multiplier.f32 || !weight.codes()) return InputForm::values;
  return multiplier.fast && is_k_type(*weight.codes()) ? InputForm::blocks : InputForm::groups;
}

void multiply_tile(const Multiplier& multiplier, const Matrix& weight, std::uint32_t tile,
                   const Panel& panel, std::uint32_t first_row, std::uint32_t n_rows,
                   TileScratch& scratch, float* acc) {
  std::memset(acc, 0, sizeof(float) * kTileRows * n_rows);
  const InputForm form = input_form(multiplier, weight);
  if (form == InputForm::blocks) {
    multiply_fast(multiplier, weight, tile, panel, first_row, n_rows, scratch.codes, acc);
    return;
  }
  const Kernels& kernels = multiplier.kernels;
  const std::optional<CodeType> codes = form == InputForm::groups ? weight.codes() : std::nullopt;
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

// norm_linear and linear_residual: one prepared input, one item per tile of outputs.
#include <algorithm>
#include <array>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {

void CpuBackend::reserve_accumulators(std::uint32_t n_rows) {
  for (auto& each : scratch_)
    grow(each->accumulators,
         std::uint64_t{2} * most_pass_tiles(multiplier_) * n_rows * kTileRows * sizeof(float),
         "accumulators");
}

void CpuBackend::add_products_work(StageTimer& timer, const Matrix& weight,
                                   std::uint32_t n_rows) const {
  const double operations = 2.0 * weight.n_rows() * weight.n_cols() * n_rows;
  const auto bytes = static_cast<double>(weight.stored_bytes());
  const InputForm form = input_form(multiplier_, weight);
  if (form != InputForm::values && form != InputForm::brains) {
    timer.add_integer_work(operations, bytes);
  } else {
    timer.add_float_work(operations, bytes);
  }
}

// A hand-out should take ten microseconds or more: about 2^18 products. Only small models get more
// than one tile at a time.
std::uint32_t CpuBackend::tile_grain(const Matrix& weight, std::uint32_t n_rows) const {
  const std::uint64_t products = std::uint64_t{kTileRows} * weight.n_cols() * std::max(n_rows, 1u);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>((1u << 18) / products, 1));
}

// Results of one row and one tile.
struct CpuBackend::TileResult {
  std::uint32_t row;
  std::uint32_t first_col;
  std::uint32_t n_cols;
  const float* values;
};

// Multiplies a range of tiles with all rows; calls use(result) row by row, tile by tile.
template <typename Use>
void CpuBackend::multiply_pass(const Matrix& weight, TileRange tiles, const Panel& panel,
                               unsigned slot, Use use) {
  const auto* acc = scratch(slot).accumulators.as<float>();
  multiply_tiles(multiplier_, weight, tiles, panel, 0, panel.n_rows, scratch(slot).tile,
                 scratch(slot).accumulators.as<float>());
  for (std::uint32_t i = 0; i < tiles.count; ++i) {
    const std::uint32_t tile = tiles.first + i;
    for (std::uint32_t r = 0; r < panel.n_rows; ++r, acc += kTileRows)
      use(TileResult{r, tile * kTileRows, weight.tile_rows(tile), acc});
  }
}

void CpuBackend::norm_linear(TensorView x, const Weight* norm, float eps,
                             std::span<const Projection> projections) {
  constexpr std::size_t kMostProjections = 8;
  DLLM_ASSERT(projections.size() <= kMostProjections);
  // Tiles of all projections form one list, so that a small one does not end in a barrier of its
  // own.
  std::array<std::uint32_t, kMostProjections + 1> first_pass{};
  Needs needs;
  StageTimer timer(profile_, Stage::qkv, "norm_linear");
  for (std::size_t i = 0; i < projections.size(); ++i) {
    const Projection& each = projections[i];
    const Matrix& weight = matrix_of(*each.weight);
    DLLM_ASSERT(weight.n_cols() == x.n_cols && weight.n_rows() == each.out.n_cols);
    DLLM_ASSERT(each.out.n_rows == x.n_rows && each.out.buffer != x.buffer);
    if (each.bias) vector_of(*each.bias, weight.n_rows());
    needs.add(input_form(multiplier_, weight));
    add_products_work(timer, weight, x.n_rows);
    first_pass[i + 1] = first_pass[i] + TilePasses(multiplier_, weight, x.n_rows).count();
  }
  if (projections.empty() || x.n_rows == 0) return;
  const Panel panel = prepare(x, norm, eps, needs);
  reserve_accumulators(x.n_rows);
  const std::uint32_t grain = tile_grain(matrix_of(*projections[0].weight), x.n_rows);
  arena_.for_each(first_pass[projections.size()], grain, [&](std::uint32_t item, unsigned slot) {
    std::size_t i = 0;
    while (item >= first_pass[i + 1]) ++i;
    const Projection& each = projections[i];
    const Matrix& weight = matrix_of(*each.weight);
    const float* biases = each.bias ? vector_of(*each.bias, weight.n_rows()) : nullptr;
    const TileRange tiles = TilePasses(multiplier_, weight, panel.n_rows)[item - first_pass[i]];
    multiply_pass(weight, tiles, panel, slot, [&](const TileResult& tile) {
      float* to = buffer_of(each.out).row(tile.row) + tile.first_col;
      const float* bias = biases ? biases + tile.first_col : nullptr;
      for (std::uint32_t j = 0; j < tile.n_cols; ++j)
        to[j] = bias ? tile.values[j] + bias[j] : tile.values[j];
    });
  });
}

void CpuBackend::add_products(const Panel& panel, const Matrix& weight, const Weight* bias,
                              TensorView residual) {
  DLLM_ASSERT(weight.n_cols() == panel.n_cols && weight.n_rows() == residual.n_cols);
  DLLM_ASSERT(residual.n_rows == panel.n_rows);
  const float* biases = bias ? vector_of(*bias, weight.n_rows()) : nullptr;
  const CpuBuffer& out = buffer_of(residual);
  reserve_accumulators(panel.n_rows);
  const TilePasses passes(multiplier_, weight, panel.n_rows);
  arena_.for_each(passes.count(), tile_grain(weight, panel.n_rows),
                  [&](std::uint32_t pass, unsigned slot) {
                    multiply_pass(weight, passes[pass], panel, slot, [&](const TileResult& tile) {
                      float* to = out.row(tile.row) + tile.first_col;
                      const float* bias = biases ? biases + tile.first_col : nullptr;
                      for (std::uint32_t j = 0; j < tile.n_cols; ++j)
                        to[j] += bias ? tile.values[j] + bias[j] : tile.values[j];
                    });
                  });
}

void CpuBackend::linear_residual(TensorView x, const Weight& weight, const Weight* bias,
                                 TensorView residual) {
  DLLM_ASSERT(x.buffer != residual.buffer);
  if (x.n_rows == 0) return;
  StageTimer timer(profile_, Stage::out, "linear_residual");
  add_products_work(timer, matrix_of(weight), x.n_rows);
  Needs needs;
  needs.add(input_form(multiplier_, matrix_of(weight)));
  add_products(prepare(x, nullptr, 0, needs), matrix_of(weight), bias, residual);
}

}  // namespace dllm::cpu

// gated_mlp: gate and up tile by tile, so that silu(gate) * up of a tile goes straight into the
// input panel of down: one tile of outputs is one group of inputs, and the product is never stored
// as rows.
#include <cstring>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {

static_assert(kTileRows == kGroupCols, "a tile of the gate is a group of the down projection");

void CpuBackend::gated_mlp(TensorView x, const Weight& norm, float eps, const Weight& gate,
                           const Weight& up, const Weight& down) {
  const Matrix& gate_matrix = matrix_of(gate);
  const Matrix& up_matrix = matrix_of(up);
  const Matrix& down_matrix = matrix_of(down);
  DLLM_ASSERT(gate_matrix.n_cols() == x.n_cols && up_matrix.n_cols() == x.n_cols);
  DLLM_ASSERT(gate_matrix.n_rows() == up_matrix.n_rows());
  DLLM_ASSERT(down_matrix.n_cols() == gate_matrix.n_rows());
  if (x.n_rows == 0) return;
  StageTimer timer(profile_, Stage::ffn, "gated_mlp");
  for (const Matrix* each : {&gate_matrix, &up_matrix, &down_matrix})
    timer.add_work(products(*each, x.n_rows), static_cast<double>(each->stored_bytes()));

  Needs needs;
  needs.add(gate_matrix, options_.mode);
  needs.add(up_matrix, options_.mode);
  const Panel input = prepare(x, &norm, eps, needs);
  Needs hidden_needs;
  hidden_needs.add(down_matrix, options_.mode);
  const Panel hidden = make_panel(hidden_, x.n_rows, gate_matrix.n_rows(), hidden_needs);
  reserve_accumulators(x.n_rows);

  arena_.for_each(gate_matrix.n_tiles(), tile_grain(gate_matrix, x.n_rows),
                  [&](std::uint32_t tile, unsigned slot) {
                    auto* gates = scratch(slot).accumulators.as<float>();
                    float* ups = gates + std::uint64_t{x.n_rows} * kTileRows;
                    TileScratch& tile_scratch = scratch(slot).tile;
                    multiply_tile(kernels_, options_.mode, gate_matrix, tile, input, 0, x.n_rows,
                                  tile_scratch, gates);
                    multiply_tile(kernels_, options_.mode, up_matrix, tile, input, 0, x.n_rows,
                                  tile_scratch, ups);
                    kernels_.rows.silu_multiply(gates, ups, x.n_rows * kTileRows, gates);
                    const std::uint64_t cell = std::uint64_t{tile} * x.n_rows;
                    if (hidden.values) {
                      std::memcpy(hidden.values + cell * kGroupCols, gates,
                                  std::uint64_t{x.n_rows} * kGroupCols * sizeof(float));
                    }
                    if (!hidden.groups) return;
                    for (std::uint32_t r = 0; r < x.n_rows; ++r)
                      kernels_.rows.quantise(gates + std::uint64_t{r} * kTileRows,
                                             hidden.groups + cell + r);
                  });
  add_products(hidden, down_matrix, nullptr, x);
}

}  // namespace dllm::cpu

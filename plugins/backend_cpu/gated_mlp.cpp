// gated_mlp: gate and up tile by tile, so that silu(gate) * up of a tile goes straight into the
// input panel of down: one tile of outputs is one group of inputs, and the product is never stored
// as rows. Blocks are eight tiles wide: values wait in the panel until the last
// tile of a block is done.
#include <atomic>
#include <cstring>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {

static_assert(kTileRows == kGroupCols, "a tile of the gate is a group of the down projection");

// `values`: [n_rows][kTileRows] of this tile. The thread that finishes a block's last tile
// quantises the block, whichever it is.
void CpuBackend::finish_hidden_tile(const Panel& hidden, std::uint32_t tile, const float* values) {
  if (hidden.groups)
    quantise_groups({values, kTileRows, hidden.n_rows, 1, nullptr, nullptr}, hidden,
                    std::uint64_t{tile} * hidden.n_rows, 0);
  for (std::uint32_t r = 0; hidden.brains && r < hidden.n_rows; ++r)
    multiplier_.brains->round(values + std::uint64_t{r} * kTileRows, hidden.brain_group(tile, r));
  if (!hidden.blocks.codes && !hidden.scaled_blocks) return;
  constexpr std::uint32_t kTilesPerBlock = kBlockCols / kTileRows;
  const std::uint32_t block = tile / kTilesPerBlock;
  std::atomic_ref<std::uint32_t> done(hidden_tiles_done_.as<std::uint32_t>()[block]);
  if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != kTilesPerBlock) return;
  const std::uint64_t group_stride = std::uint64_t{hidden.n_rows} * kGroupCols;
  const float* first = hidden.values + std::uint64_t{block} * kTilesPerBlock * group_stride;
  for (std::uint32_t r = 0; r < hidden.n_rows; ++r)
    quantise_block(first + std::uint64_t{r} * kGroupCols, group_stride, hidden, block, r);
}

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
    add_products_work(timer, *each, x.n_rows);

  Needs needs;
  needs.add(input_form(multiplier_, gate_matrix));
  needs.add(input_form(multiplier_, up_matrix));
  const Panel input = prepare(x, &norm, eps, needs);
  Needs hidden_needs;
  hidden_needs.add(input_form(multiplier_, down_matrix));
  hidden_needs.values |= hidden_needs.blocks || hidden_needs.scaled_blocks;
  const Panel hidden = make_panel(hidden_, x.n_rows, gate_matrix.n_rows(), hidden_needs);
  const std::uint64_t counter_bytes = (hidden.n_cols / kBlockCols + 1) * sizeof(std::uint32_t);
  grow(hidden_tiles_done_, counter_bytes, "block counters");
  std::memset(hidden_tiles_done_.as<void>(), 0, counter_bytes);
  reserve_accumulators(x.n_rows);

  const TilePasses passes(multiplier_, gate_matrix, x.n_rows);
  arena_.for_each(
      passes.count(), tile_grain(gate_matrix, x.n_rows), [&](std::uint32_t pass, unsigned slot) {
        const TileRange tiles = passes[pass];
        const std::uint64_t tile_floats = std::uint64_t{x.n_rows} * kTileRows;
        auto* gates = scratch(slot).accumulators.as<float>();
        float* ups = gates + tiles.count * tile_floats;
        TileScratch& tile_scratch = scratch(slot).tile;
        multiply_tiles(multiplier_, gate_matrix, tiles, input, 0, x.n_rows, tile_scratch, gates);
        multiply_tiles(multiplier_, up_matrix, tiles, input, 0, x.n_rows, tile_scratch, ups);
        for (std::uint32_t i = 0; i < tiles.count; ++i) {
          const std::uint32_t tile = tiles.first + i;
          float* gate_values = gates + i * tile_floats;
          float* out = hidden.values ? hidden.values + tile * tile_floats : gate_values;
          kernels_.rows.silu_multiply(gate_values, ups + i * tile_floats, x.n_rows * kTileRows,
                                      out);
          finish_hidden_tile(hidden, tile, out);
        }
      });
  add_products(hidden, down_matrix, nullptr, x);
}

}  // namespace dllm::cpu

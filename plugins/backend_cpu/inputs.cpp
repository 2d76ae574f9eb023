// Preparing an input once for all products that read it: norm, then codes or padded f32 groups.
#include <algorithm>
#include <cstring>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

bool has_blocks(const Panel& panel) { return panel.blocks.codes || panel.scaled_blocks; }

}  // namespace

void CpuBackend::Needs::add(InputForm form) {
  switch (form) {
    case InputForm::groups:
      groups = true;
      break;
    case InputForm::fine_groups:
      groups = residuals = true;
      break;
    case InputForm::values:
      values = true;
      break;
    case InputForm::blocks:
      blocks = true;
      break;
    case InputForm::scaled_blocks:
      scaled_blocks = true;
      break;
    case InputForm::brains:
      brains = true;
      break;
  }
}

Panel CpuBackend::make_panel(PanelMemory& memory, std::uint32_t n_rows, std::uint32_t n_cols,
                             Needs needs) {
  Panel panel;
  panel.n_rows = n_rows;
  panel.n_cols = n_cols;
  const std::uint64_t cells = std::uint64_t{n_rows} * panel.n_groups();
  if (needs.groups) {
    grow(memory.groups, cells * sizeof(ActivationGroup), "activation codes");
    panel.groups = memory.groups.as<ActivationGroup>();
  }
  if (needs.residuals) {
    grow(memory.residuals, cells * sizeof(ActivationGroup), "activation codes");
    panel.residuals = memory.residuals.as<ActivationGroup>();
  }
  if (needs.values) {
    grow(memory.values, cells * kGroupCols * sizeof(float), "activation values");
    panel.values = memory.values.as<float>();
  }
  if (needs.blocks) {
    const std::uint64_t blocks = std::uint64_t{panel.block_rows()} * panel.n_blocks();
    grow(memory.block_codes, (blocks + kFastRowSlack) * kBlockCols, "activation codes");
    grow(memory.block_scales, blocks * sizeof(float), "activation scales");
    grow(memory.block_sums, blocks * sizeof(std::int32_t), "activation sums");
    panel.blocks = {memory.block_codes.as<std::int8_t>(), memory.block_scales.as<float>(),
                    memory.block_sums.as<std::int32_t>()};
    panel.in_tiles = multiplier_.fast->in_tiles;
  }
  if (needs.scaled_blocks) {
    grow(memory.scaled_blocks, sizeof(ActivationBlock) * n_rows * panel.n_blocks(),
         "activation codes");
    panel.scaled_blocks = memory.scaled_blocks.as<ActivationBlock>();
  }
  if (needs.brains) {
    const std::uint64_t blocks = std::uint64_t{n_rows} * panel.n_blocks();
    grow(memory.brains, (blocks + kFastRowSlack) * kBlockCols * sizeof(std::uint16_t),
         "activation values");
    panel.brains = memory.brains.as<std::uint16_t>();
    const std::uint32_t end = panel.n_blocks() * (kBlockCols / kGroupCols);
    for (std::uint32_t g = panel.n_groups(); g < end; ++g)
      for (std::uint32_t r = 0; r < n_rows; ++r)
        std::fill_n(panel.brain_group(g, r), kGroupCols, std::uint16_t{0});
  }
  return panel;
}

Panel CpuBackend::prepare(TensorView x, const Weight* norm, float eps, Needs needs) {
  const StageTimer timer(profile_, Stage::other, "norm, quantise", true);
  const Panel panel = make_panel(input_, x.n_rows, x.n_cols, needs);
  const float* weights = norm ? vector_of(*norm, x.n_cols) : nullptr;
  const bool only_groups =
      panel.groups && !panel.residuals && !panel.values && !panel.brains && !has_blocks(panel);
  if (!only_groups || x.n_cols % kGroupCols != 0) {
    prepare_rows(x, weights, eps, panel);
  } else {
    prepare_codes(x, weights, eps, panel);
  }
  return panel;
}

// Codes of rows without norm, and of what the codes leave where the panel has residuals. Group g of
// row r goes to cell first_cell + g * group_stride + r.
void CpuBackend::quantise_groups(const QuantiseRows& in, const Panel& panel,
                                 std::uint64_t first_cell, std::uint64_t group_stride) const {
  kernels_.rows.quantise(in, panel.groups + first_cell, group_stride);
  if (!panel.residuals) return;
  for (std::uint32_t r = 0; r < in.n_rows; ++r)
    for (std::uint32_t g = 0; g < in.n_groups; ++g) {
      const std::uint64_t cell = first_cell + g * group_stride + r;
      const ActivationGroup& group = panel.groups[cell];
      const float* x = in.x + r * in.stride + std::uint64_t{g} * kGroupCols;
      alignas(64) float left[kGroupCols];
      for (std::uint32_t k = 0; k < kGroupCols; ++k)
        left[k] = x[k] - group.scale * static_cast<float>(group.codes[k]);
      kernels_.rows.quantise({left, 0, 1, 1, nullptr, nullptr}, panel.residuals + cell, 0);
    }
}

void CpuBackend::quantise_block(const float* x, std::uint64_t group_stride, const Panel& panel,
                                std::uint32_t block, std::uint32_t row) const {
  if (panel.blocks.codes) multiplier_.fast->quantise(x, group_stride, panel.block(block, row));
  if (panel.scaled_blocks)
    kernels_.blocks->quantise(x, group_stride,
                              panel.scaled_blocks + std::uint64_t{block} * panel.n_rows + row);
}

// Straight from the input, normalised in passing. Four rows at a time: their groups lie side by
// side in the panel, and a few thousand inputs of each take some microseconds.
void CpuBackend::prepare_codes(TensorView x, const float* weights, float eps, const Panel& panel) {
  constexpr std::uint32_t kRows = 4;
  const std::uint32_t n_items = (x.n_rows + kRows - 1) / kRows;
  arena_.for_each(n_items, 1, [&](std::uint32_t item, unsigned) {
    const std::uint32_t first = item * kRows;
    const std::uint32_t n = std::min(kRows, x.n_rows - first);
    float factors[kRows];
    for (std::uint32_t r = 0; weights && r < n; ++r)
      factors[r] = kernels_.rows.norm_factor(buffer_of(x).row(first + r), x.n_cols, eps);
    kernels_.rows.quantise(
        {buffer_of(x).row(first), x.n_cols, n, panel.n_groups(), factors, weights},
        panel.groups + first, panel.n_rows);
  });
}

// With residuals, f32 groups, blocks of codes or a last group that must be padded: by way of a row
// in scratch, which stays in the nearest cache.
void CpuBackend::prepare_rows(TensorView x, const float* weights, float eps, const Panel& panel) {
  const std::uint64_t padded = round_up(x.n_cols, kPadCols);
  for (auto& each : scratch_) grow(each->row, padded * sizeof(float), "row scratch");
  arena_.for_each(x.n_rows, 2, [&](std::uint32_t r, unsigned slot) {
    auto* row = scratch(slot).row.as<float>();
    if (weights) {
      kernels_.rows.normalise(buffer_of(x).row(r), weights, x.n_cols, eps, row);
    } else {
      std::memcpy(row, buffer_of(x).row(r), x.n_cols * sizeof(float));
    }
    std::fill(row + x.n_cols, row + padded, 0.0f);
    if (panel.groups)
      quantise_groups({row, 0, 1, panel.n_groups(), nullptr, nullptr}, panel, r, panel.n_rows);
    for (std::uint32_t g = 0; panel.values && g < panel.n_groups(); ++g)
      std::memcpy(panel.values + (std::uint64_t{g} * panel.n_rows + r) * kGroupCols,
                  row + std::uint64_t{g} * kGroupCols, kGroupCols * sizeof(float));
    for (std::uint32_t g = 0; panel.brains && g < panel.n_groups(); ++g)
      multiplier_.brains->round(row + std::uint64_t{g} * kGroupCols, panel.brain_group(g, r));
    for (std::uint32_t b = 0; has_blocks(panel) && b < panel.n_cols / kBlockCols; ++b)
      quantise_block(row + std::uint64_t{b} * kBlockCols, kGroupCols, panel, b, r);
  });
}

}  // namespace dllm::cpu

// Preparing an input once for all products that read it: norm, then codes or padded f32 groups.
#include <algorithm>
#include <cstring>

#include "cpu_backend.hpp"
#include "dllm/error.hpp"

namespace dllm::cpu {

void CpuBackend::Needs::add(InputForm form) {
  switch (form) {
    case InputForm::groups:
      groups = true;
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
  if (needs.values) {
    grow(memory.values, cells * kGroupCols * sizeof(float), "activation values");
    panel.values = memory.values.as<float>();
  }
  if (needs.blocks) {
    const std::uint64_t blocks = std::uint64_t{n_rows} * panel.n_blocks();
    grow(memory.block_codes, (blocks + kFastRowSlack) * kBlockCols, "activation codes");
    grow(memory.block_scales, blocks * sizeof(float), "activation scales");
    grow(memory.block_sums, blocks * sizeof(std::int32_t), "activation sums");
    panel.blocks = {memory.block_codes.as<std::int8_t>(), memory.block_scales.as<float>(),
                    memory.block_sums.as<std::int32_t>()};
  }
  if (needs.scaled_blocks) {
    grow(memory.scaled_blocks, sizeof(ActivationBlock) * n_rows * panel.n_blocks(),
         "activation codes");
    panel.scaled_blocks = memory.scaled_blocks.as<ActivationBlock>();
  }
  return panel;
}

Panel CpuBackend::prepare(TensorView x, const Weight* norm, float eps, Needs needs) {
  const CpuBuffer& input = buffer_of(x);
  const float* norm_weights = norm ? vector_of(*norm, x.n_cols) : nullptr;
  const StageTimer timer(profile_, Stage::other, "norm, quantise", true);
  const Panel panel = make_panel(input_, x.n_rows, x.n_cols, needs);
  const std::uint64_t padded = round_up(x.n_cols, kPadCols);
  for (auto& each : scratch_) grow(each->row, padded * sizeof(float), "row scratch");
  // Two rows of a few thousand inputs take some microseconds.
  arena_.for_each(x.n_rows, 2, [&](std::uint32_t r, unsigned slot) {
    auto* row = scratch(slot).row.as<float>();
    if (norm_weights) {
      kernels_.rows.normalise(input.row(r), norm_weights, x.n_cols, eps, row);
    } else {
      std::memcpy(row, input.row(r), x.n_cols * sizeof(float));
    }
    std::fill(row + x.n_cols, row + padded, 0.0f);
    for (std::uint32_t g = 0; g < panel.n_groups(); ++g) {
      const std::uint64_t cell = std::uint64_t{g} * panel.n_rows + r;
      const float* values = row + std::uint64_t{g} * kGroupCols;
      if (panel.groups) kernels_.rows.quantise(values, panel.groups + cell);
      if (panel.values)
        std::memcpy(panel.values + cell * kGroupCols, values, kGroupCols * sizeof(float));
    }
    for (std::uint32_t b = 0; b < panel.n_cols / kBlockCols; ++b)
      quantise_block(row + std::uint64_t{b} * kBlockCols, kGroupCols, panel, b, r);
  });
  return panel;
}

void CpuBackend::quantise_block(const float* x, std::uint64_t group_stride, const Panel& panel,
                                std::uint32_t block, std::uint32_t row) const {
  if (panel.blocks.codes) multiplier_.fast->quantise(x, group_stride, panel.block(block, row));
  if (panel.scaled_blocks)
    kernels_.blocks->quantise(x, group_stride,
                              panel.scaled_blocks + std::uint64_t{block} * panel.n_rows + row);
}

}  // namespace dllm::cpu

// Products whose group scales stay integers: an optional part of an instruction set's table.
//
// The K types store w = d * scale * code - dmin * minimum with integer scales under one d for 256
// inputs. Where activations have the same form, x = unit * multiplier * code, a whole block of 256
// inputs is one integer sum: no float enters before it ends, and a group costs one 16-bit
// multiplication of scales and one multiply-add instead of two float operations each per lane.
//
// Three bounds make that exact (checked by static_assert where they are used):
//   codes of 16 inputs sum to at most kMostCodes in absolute value, so that a group's product fits
//   16 bits: 1,023 x 32 (6-bit codes less 32), 1,023 x 31 (5 bits), 2 x 1,023 x 15 (4 bits);
//   |scale x multiplier| <= 128 x kMostMultiplier, which fits 16 bits;
//   the sums of 128 inputs (6-bit codes) or 256 (others) fit 32 bits.
// Thread rule: pure functions, any thread.
#pragma once

#include "kernels.hpp"

namespace dllm::cpu {

constexpr int32_t kMostCodes = 1023;
constexpr int32_t kMostMultiplier = 64;
constexpr uint32_t kBlockGroups = kBlockCols / kGroupCols;

/// 256 activations of one row: x[k] ~ unit * multipliers[k / 32] * codes[k].
/// A panel is ActivationBlock[n_blocks][n_rows].
struct alignas(64) ActivationBlock {
  int8_t codes[kBlockCols];
  int16_t multipliers[kBlockGroups];  // 0 to kMostMultiplier
  // multiplier * (sum of the group's codes), rounded to a multiple of 2^sum_shift and divided by
  // it. sum_shift is 0 unless a sum does not fit 16 bits.
  int16_t sums[kBlockGroups];
  int32_t offsets[kBlockCols / 16];  // -32 * (sum of 16 codes)
  float unit;                        // NaN where an activation was not finite
  int32_t sum_shift;                 // 0 to 2
};

/// What a block's groups are like; decides the kernel.
enum class BlockForm : uint32_t {
  minimums,       // a scale and a minimum for 32 inputs, codes below 16 (Q4_K)
  wide_minimums,  // the same with codes below 32 (Q5_K); both halves of a group have its scale
  offset_32,      // a scale for 16 inputs, w = d * scale * (code - 32) (Q6_K)
  offset_4        // the same with code - 4 (Q3_K)
};

/// Integer codes and scales of kTileRows weight rows over one block.
struct BlockTile {
  alignas(64) uint8_t codes[kBlockCols / 4][kTileRows][4];  // as in CodeTile, unsigned
  // Two groups side by side: what a 32-bit lane of a 16-bit dot product takes. Form `minimums` has
  // 4 pairs of 32 inputs each, the others 8 pairs of 16.
  alignas(64) int16_t scales[kBlockCols / 32][kTileRows][2];
  alignas(64) int16_t minimums[kBlockGroups / 2][kTileRows][2];
  alignas(64) float d[kTileRows];
  alignas(64) float minus_dmin[kTileRows];
  BlockForm form;
};

struct BlockKernels {
  /// Whether weights of a type go this way. Those that do have whole blocks of kBlockCols inputs.
  bool (*takes)(CodeType type);
  /// Quantises kBlockCols values: x[g * group_stride + k] for the 8 groups of 32.
  void (*quantise)(const float* x, uint64_t group_stride, ActivationBlock* out);
  void (*unpack)(CodeType type, const WeightBlock& block, BlockTile& tile);
  /// acc[r * kTileRows + i] += unit * (d * integer sum - dmin * integer sum), r < n_rows.
  void (*multiply)(const BlockTile& tile, const ActivationBlock* rows, uint32_t n_rows, float* acc);
};

}  // namespace dllm::cpu

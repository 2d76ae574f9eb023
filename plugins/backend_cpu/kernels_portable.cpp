// Kernels for any processor: plain C++, no instruction beyond the build's baseline. The reference
// that the others are compared with, so it is written to be read, not to be fast.
#include "dllm_sdk/philox.h"
#include "kernels.hpp"

namespace dllm::cpu {
namespace {

#include "half.inl"
#include "row_math.inl"
#include "unpack.inl"

// sums[i] = weight row i times n codes of an activation, n a multiple of 4.
template <bool kSigned>
void dot(const CodeTile& tile, uint32_t first_col, const int8_t* codes, uint32_t n, int32_t* sums) {
  for (uint32_t i = 0; i < kTileRows; ++i) sums[i] = 0;
  for (uint32_t k = 0; k < n; k += 4)
    for (uint32_t i = 0; i < kTileRows; ++i) {
      const uint8_t* four = tile.codes[(first_col + k) / 4][i];
      for (uint32_t j = 0; j < 4; ++j) {
        const int16_t code = kSigned ? static_cast<int8_t>(four[j]) : four[j];
        sums[i] += code * codes[k + j];
      }
    }
}

template <bool kSigned>
void multiply_codes_as(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                       uint32_t n_rows, float* acc) {
  const uint32_t parts = tile.half_groups ? 2 : 1;
  const uint32_t part_cols = kGroupCols / parts;
  int32_t products[kTileRows];
  for (uint32_t g = 0; g < tile.n_groups32; ++g) {
    for (uint32_t r = 0; r < n_rows; ++r) {
      const ActivationGroup& a = panel[static_cast<uint64_t>(g) * group_stride + r];
      for (uint32_t part = 0; part < parts; ++part) {
        const uint32_t group = g * parts + part;
        const float sum = parts == 1 ? a.sum32 : a.sum16[part];
        dot<kSigned>(tile, g * kGroupCols + part * part_cols, a.codes + part * part_cols, part_cols,
                     products);
        for (uint32_t i = 0; i < kTileRows; ++i) {
          float& out = acc[r * kTileRows + i];
          out += static_cast<float>(products[i]) * (tile.scale[group][i] * a.scale);
          out += tile.minimum[group][i] * sum;
        }
      }
    }
  }
}

void multiply_codes(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                    uint32_t n_rows, float* acc) {
  (tile.is_signed ? multiply_codes_as<true> : multiply_codes_as<false>)(tile, panel, group_stride,
                                                                        n_rows, acc);
}

constexpr Kernels kTable = {
    "portable", unpack_tile, multiply_codes, row_math::multiply_floats, row_math::widen_floats,
    kRowMath};

}  // namespace

const Kernels* portable_kernels() { return &kTable; }

}  // namespace dllm::cpu

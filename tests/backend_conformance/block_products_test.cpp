// Products with integer group scales at the ends of their ranges: the largest codes and scales,
// inputs that fill every bound. What overflowed or lost a bit would be off by far more than the
// rounding allowed here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "block_kernels.hpp"
#include "dllm/quant.hpp"
#include "isa.hpp"
#include "pack.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint32_t kRows = 7;  // activation rows: a whole stretch of the kernel and a rest

struct Input {
  std::string name;
  std::function<float(std::uint32_t row, std::uint32_t k)> value;
};

std::vector<Input> inputs() {
  return {{"all equal", [](auto row, auto) { return 1.0F + static_cast<float>(row); }},
          {"all equal, below zero", [](auto, auto) { return -3.0F; }},
          {"signs", [](auto row, auto k) { return (k * 7 + row) % 3 == 0 ? 2.0F : -2.0F; }},
          {"groups of all sizes", [](auto, auto k) { return std::ldexp(1.0F, 2 * (k / 32)); }},
          {"one large", [](auto row, auto k) { return k == 40 + row ? 1e4F : 0.25F; }},
          {"ramp", [](auto row, auto k) { return static_cast<float>(k) - 100.0F * row; }},
          {"zeros", [](auto, auto) { return 0.0F; }}};
}

// Random blocks of 32 rows; the first rows have every byte alike, so codes and scales are extreme.
std::vector<std::uint8_t> gguf_rows(DType dtype) {
  std::mt19937_64 random(3);
  const std::uint32_t bytes = dtype_info(dtype).block_bytes;
  std::vector<std::uint8_t> rows(kTileRows * bytes);
  for (std::uint8_t& byte : rows) byte = static_cast<std::uint8_t>(random());
  const std::array<std::uint8_t, 4> fills = {0xFF, 0x80, 0x7F, 0x00};
  for (std::uint32_t row = 0; row < fills.size(); ++row)
    std::fill_n(rows.begin() + row * bytes, bytes, fills[row]);
  if (dtype == DType::q6_k)  // code 0 (less 32) and code 63 with the largest scale, -128
    for (std::uint32_t row = 4; row < 6; ++row) {
      std::fill_n(rows.begin() + row * bytes, 192, row == 4 ? 0x00 : 0xFF);
      std::fill_n(rows.begin() + row * bytes + 192, 16, 0x80);
    }
  const bool first = dtype == DType::q4_k || dtype == DType::q5_k;
  for (std::uint32_t row = 0; row < kTileRows; ++row) {  // d = 1, dmin = 0.5
    std::uint8_t* block = rows.data() + row * bytes;
    std::uint8_t* d = first ? block : block + bytes - 2;
    d[0] = 0x00;
    d[1] = 0x3C;
    if (first) d[2] = 0x00, d[3] = 0x38;
  }
  return rows;
}

std::vector<float> decoded(DType dtype, const std::vector<std::uint8_t>& rows) {
  const std::uint32_t bytes = dtype_info(dtype).block_bytes;
  std::vector<float> out(kTileRows * kBlockCols);
  for (std::uint32_t row = 0; row < kTileRows; ++row)
    decode_row(dtype, std::as_bytes(std::span(rows).subspan(row * bytes, bytes)),
               std::span(out).subspan(row * kBlockCols, kBlockCols));
  return out;
}

void expect_in_bounds(const ActivationBlock& a, const std::vector<float>& x) {
  for (std::uint32_t k = 0; k < kBlockCols; ++k) {
    ASSERT_LE(std::abs(a.codes[k]), 127);
    const double step = static_cast<double>(a.unit) * a.multipliers[k / 32];
    ASSERT_NEAR(step * a.codes[k], x[k], 0.5001 * step) << "input " << k;
  }
  for (std::uint32_t half = 0; half < kBlockCols / 16; ++half) {
    int size = 0;
    int sum = 0;
    for (std::uint32_t k = 16 * half; k < 16 * half + 16; ++k) {
      size += std::abs(a.codes[k]);
      sum += a.codes[k];
    }
    ASSERT_LE(size, kMostCodes);
    ASSERT_EQ(a.offsets[half], -32 * sum);
  }
  for (const int multiplier : a.multipliers) ASSERT_LE(multiplier, kMostMultiplier);
}

TEST(BlockProducts, AreExactAtTheEndsOfTheirRanges) {
  for (const Isa& isa : all_isas()) {
    if (!isa.usable || !isa.kernels->blocks) continue;
    const BlockKernels& kernels = *isa.kernels->blocks;
    for (const DType dtype : {DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k}) {
      const auto type = static_cast<CodeType>(dtype);
      ASSERT_TRUE(kernels.takes(type));
      const std::vector<std::uint8_t> rows = gguf_rows(dtype);
      const std::vector<float> weights = decoded(dtype, rows);
      struct alignas(64) Line {
        std::array<std::uint8_t, 64> bytes;
      };
      std::vector<Line> packed(rows.size() / 64);
      auto* data = reinterpret_cast<std::uint8_t*>(packed.data());
      pack_blocks(layout_of(dtype), rows.data(), dtype_info(dtype).block_bytes, kTileRows, 1, data);
      auto tile = std::make_unique<BlockTile>();
      kernels.unpack(type, {data, kBlockCols}, *tile);
      for (const Input& input : inputs()) {
        SCOPED_TRACE(std::string(isa.name) + ", " + std::string(dtype_name(dtype)) + ", " +
                     input.name);
        std::vector<ActivationBlock> panel(kRows);
        for (std::uint32_t r = 0; r < kRows; ++r) {
          std::vector<float> x(kBlockCols);
          for (std::uint32_t k = 0; k < kBlockCols; ++k) x[k] = input.value(r, k);
          kernels.quantise(x.data(), 32, &panel[r]);
          expect_in_bounds(panel[r], x);
        }
        struct alignas(64) Lanes {
          std::array<float, kTileRows> at;
        };
        std::vector<Lanes> acc(kRows, Lanes{});
        kernels.multiply(*tile, panel.data(), kRows, acc[0].at.data());
        for (std::uint32_t r = 0; r < kRows; ++r)
          for (std::uint32_t i = 0; i < kTileRows; ++i) {
            double want = 0;
            double size = 0;
            for (std::uint32_t k = 0; k < kBlockCols; ++k) {
              const double x = static_cast<double>(panel[r].unit) * panel[r].multipliers[k / 32] *
                               panel[r].codes[k];
              want += static_cast<double>(weights[i * kBlockCols + k]) * x;
              size += std::abs(static_cast<double>(weights[i * kBlockCols + k]) * x);
            }
            // f32 roundings at the end; group sums above 16 bits are rounded by up to 2 in 32,768.
            // Minimums of up to 63 x 0.5 a group are a term of their own.
            const double minimums = 31.5 * 256 * 127 * 64 * static_cast<double>(panel[r].unit);
            ASSERT_NEAR(acc[r].at[i], want, size * 1e-6 + minimums * 1e-5)
                << "row " << r << " weight row " << i;
          }
      }
    }
  }
}

}  // namespace
}  // namespace dllm::cpu

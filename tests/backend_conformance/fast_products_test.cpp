// The fast products' kernels against plain arithmetic: requantising and quantising within their
// stated errors, products exactly. AMX runs on the processor where it can, else emulated; its tile
// arithmetic also where AVX-512 is missing.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "amx_baseline.hpp"
#include "conformance.hpp"
#include "instruction_emulator.hpp"
#include "isa_named.hpp"
#include "memory.hpp"
#include "pack.hpp"
#include "vnni256_evex.hpp"

namespace dllm::cpu {
namespace {

struct Case {
  std::string name;
  const FastKernels* kernels;
  bool usable;
  std::string base;  // where this is usable, what lacks can be emulated
  int code_offset;   // added to requantised codes
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

std::vector<Case> all_cases() {
  const bool has_avx512 = test::isa_named("avx512vnni").usable;
  return {{"avxvnni", avxvnni_fast(), test::isa_named("avxvnni").usable, "avx2", 128},
          {"avxvnni_as_evex", test::vnni256_evex_fast(), has_avx512, "avx512vnni", 128},
          {"avx512vnni", avx512vnni_fast(), has_avx512, "avx512vnni", 128},
          {"amx", amx_fast(), test::isa_named("amx").usable, "avx512vnni", 0}};
}

constexpr std::uint32_t kTileCodes = kCodeRows * kBlockCols;

// Signed where nothing was added to it.
int code_in(const CodeTile& tile, std::uint32_t k, std::uint32_t row, int offset) {
  const std::uint8_t byte = tile.codes[k / 4][row][k % 4];
  return offset == 0 ? static_cast<std::int8_t>(byte) : byte - offset;
}

// Where code k of a row lies (FastKernels::in_tiles).
std::size_t place_of(std::uint32_t row, std::uint32_t k, bool in_tiles) {
  return in_tiles ? ((std::size_t{row} / 16 * 4 + k / 64) * 16 + row % 16) * 64 + k % 64
                  : std::size_t{row} * kBlockCols + k;
}

class FastProducts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().usable) return;
    if (GetParam().kernels == nullptr || !test::isa_named(GetParam().base).usable)
      GTEST_SKIP() << "this processor cannot run " << GetParam().name;
    if (!dllm::test::emulate_missing_instructions())
      GTEST_SKIP() << "instructions can be emulated on x86-64 Linux only";
  }
  const FastKernels& kernels() const { return *GetParam().kernels; }
  int code(const CodeTile& tile, std::uint32_t k, std::uint32_t row) const {
    return code_in(tile, k, row, GetParam().code_offset);
  }

  std::mt19937_64 random_{7};
};

INSTANTIATE_TEST_SUITE_P(Isas, FastProducts, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

std::unique_ptr<CodeTile> random_tile(std::mt19937_64& random, int code_bits, bool half_groups) {
  auto tile = std::make_unique<CodeTile>();
  tile->code_bits = static_cast<std::uint8_t>(code_bits);
  tile->half_groups = half_groups;
  tile->is_signed = false;
  tile->n_groups32 = kBlockCols / kGroupCols;
  for (auto& step : tile->codes)
    for (auto& row : step)
      for (std::uint8_t& code : row)
        code = static_cast<std::uint8_t>(random() & ((1U << code_bits) - 1));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::uint32_t g = 0; g < (half_groups ? 16U : 8U); ++g)
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      const float size = std::ldexp(1.0F, static_cast<int>(row) - 20);  // rows of all sizes
      tile->scale[g][row] = size * uniform(random);
      tile->minimum[g][row] = -size * 8 * uniform(random);
    }
  return tile;
}

TEST_P(FastProducts, RequantisingIsOffByHalfAStepAndTheFixedPointError) {
  for (const int code_bits : {2, 3, 4, 5, 6})
    for (const bool half_groups : {false, true}) {
      SCOPED_TRACE(std::to_string(code_bits) + " bits");
      const auto tile = random_tile(random_, code_bits, half_groups);
      for (auto& group : tile->scale) group[3] = 0;  // a row of zeros
      for (auto& group : tile->minimum) group[3] = 0;
      const CodeTile before = *tile;
      kernels().requantise(*tile);
      const double largest = (1 << code_bits) - 1;
      for (std::uint32_t row = 0; row < kTileRows; ++row) {
        double bound = 0;
        for (std::uint32_t g = 0; g < (half_groups ? 16U : 8U); ++g) {
          const double minimum = before.minimum[g][row];
          const double top = largest * before.scale[g][row] + minimum;
          bound = std::max({bound, std::abs(minimum), std::abs(top)});
        }
        ASSERT_NEAR(tile->row_scale[row], bound / 127, bound * 1e-7) << "row " << row;
        for (std::uint32_t k = 0; k < kBlockCols; ++k) {
          const std::uint32_t g = k / (half_groups ? 16 : 32);
          const double weight =
              static_cast<double>(before.scale[g][row]) * before.codes[k / 4][row][k % 4] +
              static_cast<double>(before.minimum[g][row]);
          const double want = bound == 0 ? 0 : weight / (bound / 127);
          ASSERT_NEAR(code(*tile, k, row), want, 0.5 + (largest + 1) / 512 + 1e-4)
              << "row " << row << " input " << k;
          ASSERT_LE(std::abs(code(*tile, k, row)), 127);
        }
      }
    }
}

TEST_P(FastProducts, UnpackingAtOnceEqualsUnpackingThenRequantising) {
  for (const CodeType type :
       {CodeType::q2_k, CodeType::q3_k, CodeType::q4_k, CodeType::q5_k, CodeType::q6_k}) {
    SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)));
    const auto dtype = static_cast<DType>(type);
    const std::vector<std::byte> rows = dllm::test::random_blocks(dtype, kTileRows, kBlockCols, 5);
    const BlockLayout layout = layout_of(dtype);
    AlignedMemory packed(rows.size(), "packed block");
    pack_blocks(layout, reinterpret_cast<const std::uint8_t*>(rows.data()), layout.bytes, kTileRows,
                1, packed.as<std::uint8_t>());
    const WeightBlock block = {packed.as<std::uint8_t>(), kBlockCols};
    auto want = std::make_unique<CodeTile>();
    portable_kernels()->unpack_codes(type, block, *want);
    kernels().requantise(*want);
    auto got = std::make_unique<CodeTile>();
    kernels().unpack(type, block, *got);
    EXPECT_EQ(std::memcmp(got->row_scale, want->row_scale, sizeof want->row_scale), 0);
    EXPECT_EQ(std::memcmp(got->codes, want->codes, sizeof want->codes), 0);
  }
}

// What docs/cpu-backend.md promises: `fast` gives the same bits with every instruction set.
TEST_P(FastProducts, RoundingEqualsThatOfAvx512BitForBit) {
  if (!test::isa_named("avx512vnni").usable) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  for (const bool half_groups : {false, true}) {
    const auto tile = random_tile(random_, 6, half_groups);
    auto want = std::make_unique<CodeTile>(*tile);
    avx512vnni_fast()->requantise(*want);
    kernels().requantise(*tile);
    EXPECT_EQ(std::memcmp(tile->row_scale, want->row_scale, sizeof want->row_scale), 0);
    for (std::uint32_t k = 0; k < kBlockCols; ++k)
      for (std::uint32_t row = 0; row < kTileRows; ++row)
        ASSERT_EQ(code(*tile, k, row), want->codes[k / 4][row][k % 4] - 128);
  }
  // Many, for a sum in f32 that rounds differs in one code of 200,000.
  for (int i = 0; i < 200; ++i) {
    auto want = random_tile(random_, 4, false);
    auto got = std::make_unique<CodeTile>(*want);
    avx512vnni_fast()->requantise(*want);
    kernels().requantise(*got);
    for (std::uint32_t row = 0; row < kTileRows; ++row)
      for (std::uint32_t k = 0; k < kBlockCols; ++k)
        ASSERT_EQ(code(*got, k, row), want->codes[k / 4][row][k % 4] - 128) << "tile " << i;
  }
  std::normal_distribution<float> normal;
  std::vector<float> x(kBlockCols);
  for (float& value : x) value = normal(random_);
  std::array<std::int8_t, kBlockCols> want{};
  std::array<std::int8_t, kTileCodes> got{};
  std::array<float, 2> scales{};
  std::array<std::int32_t, 2> sums{};
  avx512vnni_fast()->quantise(x.data(), kGroupCols, {want.data(), &scales[0], &sums[0]});
  kernels().quantise(x.data(), kGroupCols, {got.data(), &scales[1], &sums[1]});
  for (std::uint32_t k = 0; k < kBlockCols; ++k)
    ASSERT_EQ(got[place_of(0, k, kernels().in_tiles)], want[k]) << "input " << k;
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_EQ(sums[0], sums[1]);
}

TEST_P(FastProducts, AScaleThatIsNotFinitePoisonsItsRowOnly) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto tile = random_tile(random_, 4, false);
    tile->scale[5][7] = bad;
    tile->minimum[2][21] = bad;
    kernels().requantise(*tile);
    for (std::uint32_t row = 0; row < kTileRows; ++row)
      EXPECT_EQ(std::isnan(tile->row_scale[row]), row == 7 || row == 21) << "row " << row;
  }
}

TEST_P(FastProducts, QuantisingIsOffByHalfAStep) {
  constexpr std::uint32_t kStride = 50;
  std::normal_distribution<float> normal;
  std::vector<float> x(8 * kStride);
  for (float& value : x) value = normal(random_);
  std::array<std::int8_t, kTileCodes> codes{};
  float scale = 0;
  std::int32_t sum = 0;
  kernels().quantise(x.data(), kStride, {codes.data(), &scale, &sum});
  float largest = 0;
  int total = 0;
  for (std::uint32_t k = 0; k < kBlockCols; ++k) {
    const float value = x[k / 32 * kStride + k % 32];
    largest = std::max(largest, std::abs(value));
    const int code = codes[place_of(0, k, kernels().in_tiles)];
    total += code;
    EXPECT_NEAR(code, value / scale, 0.5 + 1e-4) << "input " << k;
  }
  EXPECT_NEAR(scale, largest / 127, largest * 1e-7);
  EXPECT_EQ(sum, total);
}

TEST_P(FastProducts, ZerosStayZerosAndWhatIsNotFiniteStaysSo) {
  std::array<float, kBlockCols> x{};
  std::array<std::int8_t, kTileCodes> codes{};
  codes.fill(1);
  float scale = 1;
  std::int32_t sum = 1;
  kernels().quantise(x.data(), 32, {codes.data(), &scale, &sum});
  EXPECT_EQ(scale, 0);
  EXPECT_EQ(sum, 0);
  for (std::uint32_t k = 0; k < kBlockCols; ++k)
    EXPECT_EQ(codes[place_of(0, k, kernels().in_tiles)], 0) << "input " << k;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    x[200] = bad;
    kernels().quantise(x.data(), 32, {codes.data(), &scale, &sum});
    EXPECT_TRUE(std::isnan(scale));
  }
}

// Products of random codes, in whole tiles or row by row; `fused` says how a table adds the scaled
// sum.
template <typename Multiply>
void expect_exact_sums(const CodeTile& tile, int code_offset, bool in_tiles, bool fused,
                       std::mt19937_64& random, Multiply multiply) {
  constexpr std::uint32_t kMostRows = 161;
  std::vector<std::int8_t> codes((kMostRows + kFastRowSlack) * kBlockCols);
  for (std::int8_t& each : codes)
    each = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
  std::vector<float> scales(kMostRows);
  std::vector<std::int32_t> sums(kMostRows);
  std::uniform_real_distribution<float> uniform(0.5, 2);
  std::vector<int> want(kMostRows * kTileRows);
  for (std::uint32_t r = 0; r < kMostRows; ++r) {
    scales[r] = uniform(random);
    for (std::uint32_t k = 0; k < kBlockCols; ++k) {
      const int value = codes[place_of(r, k, in_tiles)];
      sums[r] += value;
      for (std::uint32_t row = 0; row < kTileRows; ++row)
        want[r * kTileRows + row] += code_in(tile, k, row, code_offset) * value;
    }
  }
  for (const std::uint32_t n_rows : {1U, 2U, 11U, 12U, 13U, 16U, 17U, 31U, 32U, 33U, 48U, 161U}) {
    SCOPED_TRACE(std::to_string(n_rows) + " rows");
    struct alignas(64) Line {
      std::array<float, kTileRows> at;
    };
    std::vector<Line> acc(n_rows + 1);
    for (std::uint32_t r = 0; r <= n_rows; ++r) acc[r].at.fill(static_cast<float>(r));
    multiply({codes.data(), scales.data(), sums.data()}, n_rows, acc.front().at.data());
    for (std::uint32_t r = 0; r < n_rows; ++r)
      for (std::uint32_t row = 0; row < kTileRows; ++row) {
        const auto sum = static_cast<float>(want[r * kTileRows + row]);
        const float scale = tile.row_scale[row] * scales[r];
        const auto start = static_cast<float>(r);
        ASSERT_EQ(acc[r].at[row], fused ? std::fma(sum, scale, start) : sum * scale + start)
            << "row " << r << " output " << row;
      }
    for (const float value : acc[n_rows].at) EXPECT_EQ(value, static_cast<float>(n_rows));
  }
}

TEST_P(FastProducts, SumsAreExactForAnyNumberOfRows) {
  const auto tile = random_tile(random_, 6, true);
  kernels().requantise(*tile);
  kernels().enter();
  expect_exact_sums(*tile, GetParam().code_offset, kernels().in_tiles, true, random_,
                    [&](const FastBlock& first, std::uint32_t n_rows, float* acc) {
                      kernels().multiply(*tile, first, n_rows, acc);
                    });
  kernels().leave();
}

TEST(AmxTiles, SumsOfCodesAreExactOnAnyProcessor) {
  const AmxBaseline* amx = amx_baseline();
  if (!amx || !dllm::test::emulate_missing_instructions())
    GTEST_SKIP() << "AMX can be emulated on x86-64 Linux only";
  std::mt19937_64 random(11);
  const auto tile = random_tile(random, 6, false);
  for (auto& step : tile->codes)
    for (auto& row : step)
      for (std::uint8_t& code : row) code = static_cast<std::uint8_t>(random() % 255 + 129);
  for (float& scale : tile->row_scale) scale = std::ldexp(1.0F, static_cast<int>(random() % 9)) / 3;
  amx->enter();
  expect_exact_sums(*tile, 0, true, false, random,
                    [&](const FastBlock& first, std::uint32_t n_rows, float* acc) {
                      amx->multiply_codes(*tile, first, n_rows, acc);
                    });
  amx->leave();
}

}  // namespace
}  // namespace dllm::cpu

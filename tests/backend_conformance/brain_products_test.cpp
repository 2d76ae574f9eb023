// BF16 products against float64 sums over the rounded values: every table that this processor runs,
// and the source of AMX's, compiled for any processor, with its tiles emulated.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "amx_baseline.hpp"
#include "conformance.hpp"
#include "instruction_emulator.hpp"
#include "isa.hpp"
#include "memory.hpp"
#include "pack.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint32_t kMostRows = 50;  // three tiles of 16 and a rest; four register tiles of 12

double value_of(std::uint16_t brain) {
  return static_cast<double>(std::bit_cast<float>(std::uint32_t{brain} << 16));
}

struct alignas(64) Line {
  std::array<float, kTileRows> at;
};

// Random values of sizes from 2^-9 to 8, either sign.
std::uint16_t random_brain(std::mt19937_64& random) {
  return static_cast<std::uint16_t>((random() & 0x807F) | (118 + random() % 12) << 7);
}

// Products of all rows at once and in every smaller number from the first.
template <typename Multiply>
void expect_sums(const BrainTile& tile, std::mt19937_64& random, Multiply multiply) {
  std::vector<std::uint16_t> rows((kMostRows + kFastRowSlack) * kBlockCols);
  for (std::uint16_t& each : rows) each = random_brain(random);
  std::vector<Line> all(kMostRows);
  for (Line& line : all) line.at.fill(0.5F);
  multiply(rows.data(), kMostRows, all.front().at.data());
  for (std::uint32_t r = 0; r < kMostRows; ++r)
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      double want = 0.5;
      double magnitude = 0.5;
      for (std::uint32_t k = 0; k < kBlockCols; ++k) {
        const double product =
            value_of(tile.pairs[k / 2][row][k % 2]) * value_of(rows[r * kBlockCols + k]);
        want += product;
        magnitude += std::abs(product);
      }
      // A pair is two roundings of a sum; those of 256 inputs and one of the accumulator.
      ASSERT_NEAR(all[r].at[row], want, magnitude * 257 * 0x1p-24)
          << "row " << r << " output " << row;
    }
  for (std::uint32_t n_rows = 1; n_rows < kMostRows; ++n_rows) {
    std::vector<Line> some(n_rows + 1);
    for (Line& line : some) line.at.fill(0.5F);
    multiply(rows.data(), n_rows, some.front().at.data());
    ASSERT_EQ(0, std::memcmp(some.data(), all.data(), n_rows * sizeof(Line))) << n_rows << " rows";
    for (const float value : some[n_rows].at) ASSERT_EQ(value, 0.5F) << "behind row " << n_rows;
  }
}

std::unique_ptr<BrainTile> random_tile(std::mt19937_64& random) {
  auto tile = std::make_unique<BrainTile>();
  for (auto& pair : tile->pairs)
    for (auto& row : pair)
      for (std::uint16_t& value : row) value = random_brain(random);
  return tile;
}

// Of this processor, and what is compiled for any.
std::vector<std::pair<std::string, const BrainKernels*>> all_brains() {
  std::vector<std::pair<std::string, const BrainKernels*>> all;
  for (const Isa& isa : all_isas())
    if (isa.usable && isa.brains) all.emplace_back(isa.name, isa.brains);
  if (const AmxBaseline* amx = amx_baseline()) all.emplace_back("any processor", &amx->brains);
  return all;
}

TEST(BrainProducts, AreExactUpToF32RoundingAndTheSameInAnyCompany) {
  std::mt19937_64 random(3);
  const auto tile = random_tile(random);
  bool found = false;
  for (const Isa& isa : all_isas()) {
    if (!isa.usable || !isa.brains) continue;
    found = true;
    SCOPED_TRACE(isa.name);
    isa.brains->enter();
    expect_sums(*tile, random, [&](const std::uint16_t* rows, std::uint32_t n_rows, float* acc) {
      isa.brains->multiply(*tile, rows, n_rows, acc);
    });
    isa.brains->leave();
  }
  if (!found) GTEST_SKIP() << "this processor has no BF16 products";
}

TEST(AmxTiles, SumsOfBrainsAreExactUpToF32RoundingOnAnyProcessor) {
  const AmxBaseline* amx = amx_baseline();
  if (!amx || !dllm::test::emulate_missing_instructions())
    GTEST_SKIP() << "AMX can be emulated on x86-64 Linux only";
  std::mt19937_64 random(5);
  const auto tile = random_tile(random);
  amx->enter();
  expect_sums(*tile, random, [&](const std::uint16_t* rows, std::uint32_t n_rows, float* acc) {
    amx->brains.multiply(*tile, rows, n_rows, acc);
  });
  amx->leave();
}

TEST(BrainProducts, WeightsAreUnpackedToPairsAndZerosBehindTheLastInput) {
  if (all_brains().empty()) GTEST_SKIP() << "no BF16 products are built here";
  for (const auto& [name, brains] : all_brains())
    for (const std::uint32_t n_cols : {1U, 33U, 100U, 255U, 256U}) {
      SCOPED_TRACE(name + ", " + std::to_string(n_cols) + " inputs");
      const auto bytes = dllm::test::random_blocks(DType::bf16, kTileRows, n_cols, 5);
      AlignedMemory packed(bytes.size(), "packed block");
      pack_blocks(layout_of(DType::bf16), reinterpret_cast<const std::uint8_t*>(bytes.data()),
                  2 * n_cols, kTileRows, n_cols, packed.as<std::uint8_t>());
      auto tile = std::make_unique<BrainTile>();
      std::memset(tile.get(), 0xFF, sizeof(BrainTile));
      brains->unpack({packed.as<std::uint8_t>(), n_cols}, *tile);
      for (std::uint32_t k = 0; k < kBlockCols; ++k)
        for (std::uint32_t row = 0; row < kTileRows; ++row) {
          std::uint16_t want = 0;
          if (k < n_cols) std::memcpy(&want, bytes.data() + 2 * (row * n_cols + k), 2);
          ASSERT_EQ(tile->pairs[k / 2][row][k % 2], want) << "input " << k << " row " << row;
        }
    }
}

TEST(BrainProducts, RoundingIsToNearestWithTiesToEven) {
  if (all_brains().empty()) GTEST_SKIP() << "no BF16 products are built here";
  std::array<float, kGroupCols> x{};
  std::array<std::uint16_t, kGroupCols> got{};
  std::mt19937_64 random(9);
  std::array<std::uint32_t, kGroupCols> bits{};
  for (std::uint32_t i = 0; i < kGroupCols; ++i) {
    bits[i] = static_cast<std::uint32_t>(random_brain(random)) << 16;
    bits[i] |= i < 8 ? 0x8000U : static_cast<std::uint32_t>(random() & 0xFFFF);  // ties first
    x[i] = std::bit_cast<float>(bits[i]);
  }
  x[31] = std::numeric_limits<float>::quiet_NaN();
  x[30] = -std::numeric_limits<float>::infinity();
  x[29] = std::bit_cast<float>(0xFFFFFFFFU);  // NaN, whose rounding would overflow
  for (const auto& [name, brains] : all_brains()) {
    SCOPED_TRACE(name);
    brains->round(x.data(), got.data());
    for (std::uint32_t i = 0; i < 29; ++i)
      EXPECT_EQ(got[i], (bits[i] + 0x7FFF + (bits[i] >> 16 & 1)) >> 16) << "value " << i;
    EXPECT_TRUE(std::isnan(value_of(got[29])));
    EXPECT_EQ(got[30], 0xFF80);
    EXPECT_TRUE(std::isnan(value_of(got[31])));
  }
}

}  // namespace
}  // namespace dllm::cpu

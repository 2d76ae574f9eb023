// Every table's unpack_codes, quantise and multiply_codes against float64 sums over decoded
// weights, at the ends of the codes' ranges, where 16-bit sums would overflow first. The AVX-VNNI
// kernels run in both of their instruction's encodings, whichever the processor has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dllm/quant.hpp"
#include "instruction_emulator.hpp"
#include "isa_named.hpp"
#include "memory.hpp"
#include "pack.hpp"
#include "vnni256_evex.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint32_t kRows = 11;  // two register tiles of 4 and a rest of 3

// A table, and whether it can run here. An emulated instruction takes microseconds, so an emulated
// table takes a part of the combinations; the same source in the other encoding takes all.
struct Table {
  std::string name;
  const Kernels* kernels;
  bool usable;
  bool emulated;
};

std::vector<Table> all_tables() {
  std::vector<Table> tables;
  for (const char* name : {"portable", "avx2", "avxvnni", "avx512vnni"}) {
    const Isa& isa = test::isa_named(name);
    // What AVX-VNNI adds to AVX2 is one instruction, emulated where it is missing.
    const bool emulated = isa.name == "avxvnni" && isa.kernels && !isa.usable &&
                          test::isa_named("avx2").usable &&
                          dllm::test::emulate_missing_instructions();
    tables.push_back({name, isa.kernels, isa.usable || emulated, emulated});
  }
  const Kernels* evex = test::vnni256_evex_kernels();
  tables.push_back({"avxvnni_as_evex", evex, evex && test::isa_named("avx512vnni").usable, false});
  return tables;
}

class CodeProducts : public testing::TestWithParam<Table> {
 protected:
  void SetUp() override {
    if (!GetParam().usable) GTEST_SKIP() << "this processor cannot run " << GetParam().name;
  }
};

void PrintTo(const Table& table, std::ostream* out) { *out << table.name; }

INSTANTIATE_TEST_SUITE_P(Tables, CodeProducts, testing::ValuesIn(all_tables()),
                         [](const auto& info) { return info.param.name; });

// How codes, packed scales and activations are filled.
enum class Fill { random, all_ones, all_zeros, ones_and_zeros };
constexpr Fill kFills[] = {Fill::random, Fill::all_ones, Fill::all_zeros, Fill::ones_and_zeros};

constexpr DType kTypes[] = {DType::q4_0, DType::q4_1, DType::q5_0,   DType::q5_1,
                            DType::q8_0, DType::q2_k, DType::q3_k,   DType::q4_k,
                            DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};

// Calls f(first byte) for every binary16 field of every block: the fields of two-byte units.
template <typename F>
void for_each_half(DType dtype, std::size_t n_bytes, F f) {
  const BlockLayout layout = layout_of(dtype);
  for (std::size_t block = 0; block < n_bytes; block += layout.bytes)
    for (const PackedField& field : layout.fields)
      for (std::uint32_t unit = 0; field.unit_bytes == 2 && unit < field.count; ++unit)
        f(block + field.offset + 2 * unit);
}

std::vector<std::uint8_t> make_rows(DType dtype, Fill fill, std::mt19937_64& random) {
  const std::size_t row_size = row_bytes(dtype, kBlockCols);
  std::vector<std::uint8_t> rows(kTileRows * row_size);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool ones = fill == Fill::all_ones || i / row_size % 2 == 0;
    rows[i] = fill == Fill::random              ? static_cast<std::uint8_t>(random())
              : ones && fill != Fill::all_zeros ? 0xFF
                                                : 0;
  }
  for_each_half(dtype, rows.size(), [&](std::size_t at) {
    const auto half = static_cast<std::uint16_t>((random() & 0x83FF) | (8 + random() % 4) << 10);
    std::memcpy(rows.data() + at, &half, 2);
  });
  return rows;
}

// Largest magnitude in every group, either sign, or random.
std::vector<float> make_activations(Fill fill, std::mt19937_64& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(std::size_t{kRows} * kBlockCols);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = fill == Fill::random          ? uniform(random)
           : fill == Fill::all_ones      ? 1.0F
           : fill == Fill::all_zeros     ? -1.0F
           : i / kBlockCols % 2 == i % 2 ? 1.0F
                                         : -1.0F;
  return x;
}

class Product {
 public:
  Product(const Kernels& kernels, DType dtype, const std::vector<std::uint8_t>& rows,
          const std::vector<float>& x)
      : kernels_(kernels),
        packed_(rows.size(), "test weights"),
        acc_(kRows * kTileRows * sizeof(float), "test sums"),
        groups_(std::size_t{kRows} * kBlockCols / kGroupCols) {
    const auto n_blocks = kBlockCols / dtype_info(dtype).block_size;
    pack_blocks(layout_of(dtype), rows.data(), rows.size() / kTileRows, kTileRows, n_blocks,
                packed_.as<std::uint8_t>());
    kernels.unpack_codes(static_cast<CodeType>(dtype), {packed_.as<std::uint8_t>(), kBlockCols},
                         *tile_);
    kernels.rows.quantise({x.data(), kBlockCols, kRows, kBlockCols / kGroupCols, nullptr, nullptr},
                          groups_.data(), kRows);
  }

  // Sums of `count` rows from `first`, on top of `start`.
  std::vector<float> run(std::uint32_t first, std::uint32_t count, float start) {
    auto* acc = acc_.as<float>();
    std::fill_n(acc, count * kTileRows, start);
    kernels_.multiply_codes(*tile_, groups_.data() + first, kRows, count, acc);
    return {acc, acc + count * kTileRows};
  }
  double activation(std::uint32_t r, std::uint32_t k) const {
    const ActivationGroup& group = groups_[k / kGroupCols * kRows + r];
    return static_cast<double>(group.scale) * group.codes[k % kGroupCols];
  }

 private:
  const Kernels& kernels_;
  AlignedMemory packed_;
  AlignedMemory acc_;
  std::vector<ActivationGroup> groups_;
  std::unique_ptr<CodeTile> tile_ = std::make_unique<CodeTile>();
};

std::vector<std::vector<float>> decode(DType dtype, const std::vector<std::uint8_t>& rows) {
  const std::size_t size = rows.size() / kTileRows;
  std::vector<std::vector<float>> decoded(kTileRows, std::vector<float>(kBlockCols));
  for (std::uint32_t i = 0; i < kTileRows; ++i)
    decode_row(dtype, std::as_bytes(std::span(rows).subspan(i * size, size)), decoded[i]);
  return decoded;
}

// Largest |w| that each row could hold with its scales: codes and packed scales at either end.
std::vector<double> largest_weights(DType dtype, const std::vector<std::uint8_t>& rows) {
  std::vector<double> largest(kTileRows);
  for (const std::uint8_t byte : {0x00, 0x80, 0xFF}) {
    std::vector<std::uint8_t> filled(rows.size(), byte);
    for_each_half(dtype, rows.size(),
                  [&](std::size_t at) { std::memcpy(filled.data() + at, rows.data() + at, 2); });
    const auto decoded = decode(dtype, filled);
    for (std::uint32_t i = 0; i < kTileRows; ++i)
      for (const float w : decoded[i])
        largest[i] = std::max(largest[i], std::abs(static_cast<double>(w)));
  }
  return largest;
}

// Codes and the constant part are summed apart: about 40 roundings of sums of 256 such products.
constexpr double kRoundings = 40 * 0x1p-24;

TEST_P(CodeProducts, AreExactUpToF32RoundingAtTheEndsOfEveryRange) {
  std::mt19937_64 random(3);
  for (const DType dtype : kTypes)
    for (const Fill weights : kFills)
      for (const Fill activations : kFills) {
        if (GetParam().emulated && weights != activations) continue;
        SCOPED_TRACE(std::string(dtype_name(dtype)) + " weights " +
                     std::to_string(static_cast<int>(weights)) + " activations " +
                     std::to_string(static_cast<int>(activations)));
        const auto rows = make_rows(dtype, weights, random);
        const auto decoded = decode(dtype, rows);
        const std::vector<double> largest = largest_weights(dtype, rows);
        Product product(*GetParam().kernels, dtype, rows, make_activations(activations, random));
        const std::vector<float> got = product.run(0, kRows, 0.5F);
        for (std::uint32_t r = 0; r < kRows; ++r)
          for (std::uint32_t i = 0; i < kTileRows; ++i) {
            double want = 0.5;
            for (std::uint32_t k = 0; k < kBlockCols; ++k)
              want += static_cast<double>(decoded[i][k]) * product.activation(r, k);
            ASSERT_NEAR(static_cast<double>(got[r * kTileRows + i]), want,
                        kRoundings * (1 + kBlockCols * largest[i]))
                << "row " << r << " output " << i;
          }
      }
}

TEST_P(CodeProducts, OfARowAreTheSameAloneAndInCompany) {
  std::mt19937_64 random(5);
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(dtype_name(dtype));
    Product product(*GetParam().kernels, dtype, make_rows(dtype, Fill::random, random),
                    make_activations(Fill::random, random));
    const std::vector<float> together = product.run(0, kRows, 0.25F);
    for (std::uint32_t count = 1; count < kRows; ++count)
      for (std::uint32_t first = 0; first + count <= kRows; ++first) {
        if (GetParam().emulated && (first != 1 || count > 5)) continue;  // a tile and every rest
        const std::vector<float> part = product.run(first, count, 0.25F);
        ASSERT_EQ(0, std::memcmp(part.data(), together.data() + first * kTileRows,
                                 part.size() * sizeof(float)))
            << "rows " << first << " to " << first + count;
      }
  }
}

TEST_P(CodeProducts, AScaleThatIsNotFiniteReachesTheSums) {
  std::mt19937_64 random(7);
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(dtype_name(dtype));
    auto rows = make_rows(dtype, Fill::random, random);
    const BlockLayout layout = layout_of(dtype);
    for (const PackedField& field : layout.fields) {
      if (field.unit_bytes != 2 || (dtype == DType::iq4_xs && field.offset != 0)) continue;
      const std::uint16_t nan = 0x7E00;
      std::memcpy(rows.data() + field.offset, &nan, 2);
      break;
    }
    auto x = make_activations(Fill::random, random);
    x[2 * kBlockCols + 70] = INFINITY;
    Product product(*GetParam().kernels, dtype, rows, x);
    const std::vector<float> got = product.run(0, kRows, 0);
    for (std::uint32_t r = 0; r < kRows; ++r)
      for (std::uint32_t i = 0; i < kTileRows; ++i)
        ASSERT_EQ(std::isfinite(got[r * kTileRows + i]), r != 2 && i != 0)
            << "row " << r << " output " << i;
  }
}

}  // namespace
}  // namespace dllm::cpu

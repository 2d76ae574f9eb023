// The scalar decoders against PyPI `gguf`, bit for bit. The golden file says what it holds and how
// it was made: make_decode_golden.py.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "dllm/quant.hpp"

namespace dllm {
namespace {

constexpr std::uint32_t kCanonicalNan = 0x7FC00000;

DType type_of(const std::string& name) {
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.name == name) return info.dtype;
  }
  throw std::runtime_error("golden file names an unknown type " + name);
}

// As splitmix_bytes in the script.
std::vector<std::byte> splitmix_bytes(std::uint64_t seed, std::size_t n) {
  std::vector<std::byte> bytes;
  while (bytes.size() < n) {
    seed += 0x9E3779B97F4A7C15U;
    std::uint64_t z = seed;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(z >> 8 * i & 255));
  }
  bytes.resize(n);
  return bytes;
}

std::vector<std::uint32_t> decode_bits(DType dtype, std::span<const std::byte> bytes) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<float> values(bytes.size() / info.block_bytes * info.block_size);
  decode_row(dtype, bytes, values);
  const bool copies_bits = dtype == DType::f32 || dtype == DType::bf16;
  std::vector<std::uint32_t> bits;
  for (const float value : values) {
    const bool any_nan = std::isnan(value) && !copies_bits;
    bits.push_back(any_nan ? kCanonicalNan : std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

std::uint64_t fnv1a(std::span<const std::uint32_t> bits) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::uint32_t word : bits) {
    for (int i = 0; i < 4; ++i) hash = (hash ^ (word >> 8 * i & 255)) * 0x100000001B3U;
  }
  return hash;
}

std::vector<std::byte> parse_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<std::string> golden_lines(const std::string& kind) {
  std::ifstream file(DLLM_TEST_DATA "/decode_golden.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kind + " ")) lines.push_back(line.substr(kind.size() + 1));
  }
  return lines;
}

std::string bits_text(std::uint32_t bits) {
  std::ostringstream text;
  text << std::bit_cast<float>(bits) << " (0x" << std::hex << bits << ")";
  return text.str();
}

TEST(Decoders, RandomBlocksOfEveryTypeEqualPythonGguf) {
  const auto lines = golden_lines("hash");
  ASSERT_EQ(lines.size(), 15U);
  for (const std::string& line : lines) {
    std::istringstream fields(line);
    std::string name;
    std::size_t n_blocks = 0;
    std::uint64_t seed = 0;
    std::uint64_t hash = 0;
    fields >> name >> n_blocks >> seed >> std::hex >> hash;
    const DType dtype = type_of(name);
    const auto bytes = splitmix_bytes(seed, n_blocks * dtype_info(dtype).block_bytes);
    EXPECT_EQ(fnv1a(decode_bits(dtype, bytes)), hash) << name;
  }
}

TEST(Decoders, EveryHalfEqualsPythonGguf) {
  std::vector<std::byte> halves;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    halves.push_back(static_cast<std::byte>(bits & 255));
    halves.push_back(static_cast<std::byte>(bits >> 8));
  }
  const auto lines = golden_lines("hash_all_f16");
  ASSERT_EQ(lines.size(), 1U);
  const std::uint64_t hash = std::stoull(lines[0].substr(lines[0].rfind(' ') + 1), nullptr, 16);
  EXPECT_EQ(fnv1a(decode_bits(DType::f16, halves)), hash);
}

TEST(Decoders, ChosenScalesEqualPythonGgufElementByElement) {
  const auto blocks = golden_lines("block");
  const auto values = golden_lines("values");
  ASSERT_EQ(blocks.size(), 36U);  // 12 block types, ordinary, subnormal and negative scales
  ASSERT_EQ(values.size(), blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::istringstream block(blocks[i]);
    std::string name;
    std::string hex;
    block >> name >> hex;
    const auto got = decode_bits(type_of(name), parse_hex(hex));
    std::istringstream expected(values[i]);
    for (std::size_t j = 0; j < got.size(); ++j) {
      std::uint32_t want = 0;
      expected >> std::hex >> want;
      ASSERT_TRUE(expected) << name << ": golden has only " << j << " values";
      ASSERT_EQ(got[j], want) << name << " block " << i << " element " << j << ": got "
                              << bits_text(got[j]) << ", want " << bits_text(want);
    }
  }
}

// The definition of binary16 in double arithmetic, written apart from the decoder.
TEST(Decoders, EveryFiniteHalfFollowsTheDefinition) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const float got = f16_to_f32(static_cast<std::uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(got), fraction != 0) << bits;
      EXPECT_EQ(std::isinf(got), fraction == 0) << bits;
      EXPECT_EQ(std::signbit(got), sign < 0) << bits;
      continue;
    }
    const double want = exponent == 0 ? sign * std::ldexp(fraction, -24)
                                      : sign * std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got),
              std::bit_cast<std::uint32_t>(static_cast<float>(want)))
        << bits;
  }
}

}  // namespace
}  // namespace dllm

// The tables a vocabulary is held in, against files made to slow them down.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_hash.hpp"
#include "tokenizer/pair_table.hpp"

namespace dllm::tokenizing {
namespace {

// Values: an implementation in Python of the paper's description, which also gave the paper's
// SipHash-2-4 example. Key and message as there: bytes 0, 1, 2, ...
TEST(KeyedHash, IsSipHash13) {
  const HashKey key{0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  std::string message(40, '\0');
  std::iota(message.begin(), message.end(), '\0');
  const std::pair<std::size_t, std::uint64_t> expected[] = {
      {0, 0xabac0158050fc4dcu}, {1, 0xc9f49bf37d57ca93u},  {7, 0xd3927d989bb11140u},
      {8, 0x369095118d299a8eu}, {15, 0xd320d86d2a519956u}, {40, 0xc1d2363299e41531u}};
  for (const auto& [length, hash] : expected) {
    EXPECT_EQ(sip_hash(std::string_view(message).substr(0, length), key), hash) << length;
  }
}

// Pairs that an unkeyed product sends to one slot in 4096: a table that took them at their word
// would need 50,000 times the work here, most of a minute.
TEST(PairTable, MergesMadeToCollideCostNoMoreThanOthers) {
  constexpr std::size_t kPairs = 200'000;
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (std::int32_t left = 0; pairs.size() < kPairs; ++left) {
    for (std::int32_t right = 0; right < 150'000 && pairs.size() < kPairs; ++right) {
      const auto key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
      if (key * 0x9E3779B97F4A7C15u >> 52 == 0) pairs.emplace_back(left, right);
    }
  }
  PairTable table(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) {
    table.insert(pairs[i].first, pairs[i].second, {static_cast<std::uint32_t>(i), 7});
  }
  for (std::size_t i = 0; i < kPairs; ++i) {
    ASSERT_EQ(table.find(pairs[i].first, pairs[i].second).rank, i);
  }
  EXPECT_FALSE(table.find(-1, -1).exists());
}

}  // namespace
}  // namespace dllm::tokenizing

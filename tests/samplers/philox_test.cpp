// Philox4x32-10 against the vectors published with Random123 (kat_vectors), and the layout of a
// draw.
#include "dllm_sdk/philox.h"

#include <gtest/gtest.h>

#include <array>

namespace {

using Words = std::array<std::uint32_t, 4>;

Words philox(const Words& counter, std::uint64_t key) {
  Words out{};
  dllm_philox4x32(key, counter[0], counter[1], counter[2], counter[3], out.data());
  return out;
}

TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, 0xffffffffffffffffu),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  // Digits of pi; the key's low word comes first.
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0x299f31d0a4093822u),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, UniformIsWordIndexMod4OfBlockIndexOver4) {
  for (std::uint32_t index : {0u, 1u, 6u, 151u}) {
    const Words words = philox({7, 11, index / 4, DLLM_DRAW_ORDER}, 42);
    EXPECT_EQ(dllm_philox_uniform(42, 7, 11, index, DLLM_DRAW_ORDER),
              (words[index % 4] + 0.5) / 4294967296.0);
  }
}

TEST(Philox, UniformStaysInsideTheOpenInterval) {
  const double smallest = 0.5 / 4294967296.0;
  for (std::uint32_t position = 0; position < 10000; ++position) {
    const double u = dllm_philox_uniform(3, 0, position, 0, DLLM_DRAW_CANDIDATE);
    EXPECT_GE(u, smallest);
    EXPECT_LE(u, 1 - smallest);
  }
}

}  // namespace

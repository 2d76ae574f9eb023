// Text that is valid UTF-8 at every moment.
#include "dllm/display_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "vocabularies.hpp"

namespace dllm::test {
namespace {

// Ids below 256 are bytes; 256 is <|endoftext|>, control.
Tokenizer byte_tokenizer() {
  SmallVocabulary vocabulary;
  vocabulary.add("<|endoftext|>", TokenType::control);
  return vocabulary.make();
}

constexpr std::int32_t kMasked = -1;

std::string shown(const Tokenizer& tokenizer, Ids ids) {
  std::vector<std::uint8_t> known;
  for (std::int32_t& id : ids) {
    known.push_back(id != kMasked);
    id = std::max(id, 0);
  }
  return display_text(tokenizer, ids, known, "_");
}

TEST(DisplayText, MaskedPositionsShowOnePlaceholderEach) {
  const Tokenizer tokenizer = byte_tokenizer();
  EXPECT_EQ(shown(tokenizer, {}), "");
  EXPECT_EQ(shown(tokenizer, {kMasked, 'a', kMasked, kMasked, 'b'}), "_a__b");
}

TEST(DisplayText, CharacterSpreadOverTokensIsAPlaceholderUntilComplete) {
  const Tokenizer tokenizer = byte_tokenizer();
  // U+20AC is E2 82 AC.
  EXPECT_EQ(shown(tokenizer, {'a', 0xE2, kMasked, 0xAC, 'b'}), "a___b");
  EXPECT_EQ(shown(tokenizer, {'a', 0xE2, 0x82, kMasked, 'b'}), "a__b");
  EXPECT_EQ(shown(tokenizer, {'a', kMasked, 0x82, 0xAC, 'b'}), "a__b");
  EXPECT_EQ(shown(tokenizer, {'a', 0xE2, 0x82, 0xAC, 'b'}), "a\u20ACb");
}

TEST(DisplayText, BrokenBytesInsideARunAreReplacementCharacters) {
  const Tokenizer tokenizer = byte_tokenizer();
  EXPECT_EQ(shown(tokenizer, {'a', 0xE2, 'b', 0xFF, 'c'}), "a\uFFFDb\uFFFDc");
  EXPECT_EQ(shown(tokenizer, {kMasked, 0x80, 0x80, 0x80, 0x80, 'a'}), "__\uFFFDa");  // 3 at most
}

TEST(DisplayText, ControlTokensShowNothing) {
  const Tokenizer tokenizer = byte_tokenizer();
  EXPECT_EQ(shown(tokenizer, {'a', 256, 'b', kMasked, 256}), "ab_");
  EXPECT_EQ(final_text(tokenizer, Ids{'a', 256, 'b'}), "ab");
}

// Maximal ill-formed parts as Python's bytes.decode("utf-8", "replace") cuts them.
TEST(ReplaceInvalidUtf8, OneReplacementForEachMaximalIllFormedPart) {
  EXPECT_EQ(replace_invalid_utf8("a\u00E9\u20AC\U0001F600"), "a\u00E9\u20AC\U0001F600");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98z"), "\uFFFDz");
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82\xE2\x82\xAC"), "\uFFFD\u20AC");
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\x80\xFF"), "\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8(std::string_view("a\0b", 3)), std::string("a\0b", 3));
}

// A second reader of UTF-8: by ranges of decoded values instead of ranges of bytes.
bool is_valid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = byte(i) < 0x80 ? 1 : byte(i) >= 0xF0 ? 4 : byte(i) >= 0xE0 ? 3 : 2;
    if (byte(i) >= 0xF8 || (byte(i) & 0xC0) == 0x80 || i + size > text.size()) return false;
    std::uint32_t value = size == 1 ? byte(i) : byte(i) & (0xFFu >> (size + 1));
    for (std::size_t k = 1; k < size; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
      value = value << 6 | (byte(i + k) & 0x3F);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < kLeast[size] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      return false;
    i += size;
  }
  return true;
}

TEST(DisplayText, IsValidUtf8WhateverTheTokensAndHoles) {
  const Tokenizer tokenizer = load(made_path("dream.gguf"));
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    Ids ids(random() % 24);
    std::vector<std::uint8_t> known(ids.size());
    // Mostly ids whose tokens are single bytes or parts of characters.
    for (auto& id : ids)
      id = static_cast<std::int32_t>(random() % (round % 2 ? 256 : tokenizer.n_tokens()));
    for (auto& flag : known) flag = random() % 3 != 0;
    const std::string text = display_text(tokenizer, ids, known, "\u2591");
    ASSERT_TRUE(is_valid_utf8(text)) << testing::PrintToString(ids);
    ASSERT_TRUE(is_valid_utf8(final_text(tokenizer, ids))) << testing::PrintToString(ids);
    const auto holes = static_cast<std::size_t>(std::count(known.begin(), known.end(), 0));
    ASSERT_GE(text.size(), holes * 3);
  }
}

TEST(DisplayText, WithoutHolesItIsTheFinalTextUpToIncompleteEdges) {
  const Tokenizer tokenizer = load(made_path("dream.gguf"));
  const Ids ids = tokenizer.encode("A caf\u00E9 for 5 \u20AC \U0001F600!", {});
  const std::vector<std::uint8_t> known(ids.size(), 1);
  EXPECT_EQ(display_text(tokenizer, ids, known, "_"), final_text(tokenizer, ids));
}

}  // namespace
}  // namespace dllm::test

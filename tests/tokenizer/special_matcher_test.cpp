// The search for special tokens: against the plain definition on random tokens and texts, and its
// work on vocabularies made to slow it down.
#include "tokenizer/special_matcher.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "property.hpp"

namespace dllm::tokenizing {
namespace {

using test::Property;
using Part = std::pair<std::string, std::int32_t>;  // a text and -1, or "" and a token
using Parts = std::vector<Part>;

std::vector<SpecialMatcher::Token> tokens_of(const std::vector<std::string>& texts) {
  std::vector<SpecialMatcher::Token> tokens;
  for (const std::string& text : texts) {
    tokens.push_back({text, static_cast<std::int32_t>(tokens.size())});
  }
  return tokens;
}

std::size_t bytes_of(const std::vector<std::string>& texts) {
  std::size_t sum = 0;
  for (const std::string& text : texts) sum += text.size();
  return sum;
}

Parts split(const SpecialMatcher& matcher, std::string_view input) {
  Parts parts;
  const std::uint64_t steps = matcher.split(
      input, [&](std::string_view text) { parts.emplace_back(text, -1); },
      [&](std::int32_t id) { parts.emplace_back("", id); });
  EXPECT_LE(steps, 2 * input.size());
  return parts;
}

// The definition: at each place the longest token, of equal ones the first; else a byte of text.
Parts split_by_definition(const std::vector<std::string>& texts, std::string_view input) {
  Parts parts;
  while (!input.empty()) {
    std::int32_t longest = -1;
    std::size_t length = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].size() <= length || !input.starts_with(texts[i])) continue;
      longest = static_cast<std::int32_t>(i);
      length = texts[i].size();
    }
    if (longest >= 0) {
      parts.emplace_back("", longest);
    } else {
      length = 1;
      if (parts.empty() || parts.back().second >= 0) parts.emplace_back("", -1);
      parts.back().first += input[0];
    }
    input.remove_prefix(length);
  }
  return parts;
}

// Few letters, so that tokens overlap, contain each other and are equal; bytes above 127 among
// them.
std::string random_word(Property& property, std::string_view letters, std::uint32_t n) {
  std::string word;
  for (; n > 0; --n) word += letters[property.below(static_cast<std::uint32_t>(letters.size()))];
  return word;
}

TEST(SpecialMatcher, SplitsAsTheDefinitionDoes) {
  Property property("special tokens as by definition", 31, 4000);
  std::uint64_t n_found = 0;
  for (int round = 0; round < property.rounds(); ++round) {
    const std::string_view letters =
        property.one_of<std::string_view>({"a", "ab", "a\xFF<", "abcdefgh"});
    std::vector<std::string> texts(property.below(12));
    for (std::string& text : texts) text = random_word(property, letters, property.below(7));
    const SpecialMatcher matcher(tokens_of(texts));
    EXPECT_LE(matcher.n_states(), bytes_of(texts) + 1);
    std::string input = random_word(property, letters, property.below(40));
    if (!texts.empty()) input += texts[property.below(static_cast<std::uint32_t>(texts.size()))];
    const Parts parts = split(matcher, input);
    ASSERT_EQ(parts, split_by_definition(texts, input))
        << testing::PrintToString(texts) << " in " << testing::PrintToString(input);
    for (const Part& part : parts) n_found += part.second >= 0;
  }
  EXPECT_GT(n_found, 4000u);
}

TEST(SpecialMatcher, EveryByteIsALetter) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.push_back({'x', static_cast<char>(byte)});
  const SpecialMatcher matcher(tokens_of(texts));
  for (int byte = 0; byte < 256; ++byte) {
    const std::string& text = texts[static_cast<std::size_t>(byte)];
    EXPECT_EQ(split(matcher, "y" + text), (Parts{{"y", -1}, {"", byte}}));
  }
}

// Vocabularies on which a search that tries each place by itself, or begins again behind what it
// found, takes text times token length. `split` holds the number of steps to two a byte.
TEST(SpecialMatcher, AMegabyteCostsTwoStepsAByteWhateverTheTokens) {
  const std::string text(1 << 20, 'a');
  std::vector<std::string> numbered, ladder, ladder_from_front;
  for (std::size_t i = 0; i < 100; ++i) {
    numbered.push_back(std::string(4000, 'a') + std::to_string(i));
    ladder.emplace_back(i * 40, 'a').push_back('b');
    ladder_from_front.emplace_back(i * 40 + 1, 'a').front() = 'b';
  }
  std::vector<std::string> ladder_and_letter = ladder;
  ladder_and_letter.emplace_back("a");
  for (const auto* texts : {&numbered, &ladder, &ladder_from_front, &ladder_and_letter}) {
    const SpecialMatcher matcher(tokens_of(*texts));
    EXPECT_LE(matcher.n_states(), bytes_of(*texts) + 1);
    const bool has_letter = texts == &ladder_and_letter;
    EXPECT_EQ(split(matcher, text).size(), has_letter ? text.size() : 1);
    EXPECT_GT(split(matcher, text + texts->back()).size(), 1u);
  }
}

}  // namespace
}  // namespace dllm::tokenizing

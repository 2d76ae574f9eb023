// Byte-pair merging against the plain definition, its odd vocabularies, and its work on long
// pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "dllm/error.hpp"
#include "expect_error.hpp"
#include "vocabularies.hpp"

namespace dllm::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Rule = std::pair<std::string, std::string>;

// The definition: merge the lowest-ranked adjacent pair, leftmost first, until there is none.
std::vector<std::string> merged_plainly(const std::string& text, const std::vector<Rule>& rules) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    std::size_t best_rank = rules.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rule = std::find(rules.begin(), rules.end(), Rule{parts[i], parts[i + 1]});
      const auto rank = static_cast<std::size_t>(rule - rules.begin());
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == rules.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

class RandomVocabulary {
 public:
  explicit RandomVocabulary(unsigned seed) : random_(seed) {
    for (char c = 'a'; c <= 'd'; ++c) strings_.emplace_back(1, c);
    for (int i = 0; i < 40; ++i) add_rule();
  }

  void add_rule() {
    const Rule rule{any_string(), any_string()};
    const std::string merged = rule.first + rule.second;
    if (merged.size() > 12) return;
    rules_.push_back(rule);  // a pair may come twice
    vocabulary_.merges.push_back(rule.first + " " + rule.second);
    if (std::find(strings_.begin(), strings_.end(), merged) != strings_.end()) return;
    strings_.push_back(merged);
    if (random_() % 8 != 0)
      ids_[merged] = vocabulary_.add(merged, TokenType::normal);  // or no token
  }

  std::string any_string() { return strings_[random_() % strings_.size()]; }

  std::string any_text() {
    std::string text(1 + random_() % 60, 'a');
    for (char& c : text) c = static_cast<char>('a' + random_() % 4);
    return text;
  }

  Ids expected(const std::string& text) const {
    Ids ids;
    for (const std::string& part : merged_plainly(text, rules_)) {
      if (const auto id = ids_.find(part); id != ids_.end()) {
        ids.push_back(id->second);
      } else {
        for (const std::int32_t byte : byte_ids(part)) ids.push_back(byte);
      }
    }
    return ids;
  }

  Tokenizer make() const { return vocabulary_.make(); }

 private:
  std::mt19937 random_;
  std::vector<std::string> strings_;
  std::vector<Rule> rules_;
  std::map<std::string, std::int32_t> ids_;
  SmallVocabulary vocabulary_;
};

TEST(BytePairEncoder, EqualsThePlainDefinitionOnRandomMergesWithRepeatedPairsAndMissingTokens) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    RandomVocabulary vocabulary(seed);
    const Tokenizer tokenizer = vocabulary.make();
    for (int i = 0; i < 20; ++i) {
      const std::string text = vocabulary.any_text();
      ASSERT_EQ(tokenizer.encode(text, {}), vocabulary.expected(text))
          << "seed " << seed << ": " << text;
    }
  }
}

TEST(BytePairEncoder, RepeatedPairKeepsItsFirstRank) {
  SmallVocabulary vocabulary;
  const std::int32_t ab = vocabulary.merge("a", "b");
  vocabulary.merge("b", "c");
  vocabulary.merges.push_back("a b");
  EXPECT_EQ(vocabulary.make().encode("abc", {}), (Ids{ab, 'c'}));
}

TEST(BytePairEncoder, SymbolWithoutTokenIsWrittenByteByByte) {
  SmallVocabulary vocabulary;
  vocabulary.merges = {"a b"};  // merges to "ab", which is no token
  EXPECT_EQ(vocabulary.make().encode("abab", {}), byte_ids("abab"));
}

TEST(BytePairEncoder, MergeThroughAStringThatIsNoTokenReachesTheTokenBehindIt) {
  SmallVocabulary vocabulary;
  vocabulary.merges = {"a b", "ab c"};
  const std::int32_t abc = vocabulary.add("abc", TokenType::normal);
  EXPECT_EQ(vocabulary.make().encode("abc", {}), Ids{abc});
}

TEST(BytePairEncoder, PieceThatIsATokenIgnoresMergesForLlamaBpeOnly) {
  SmallVocabulary vocabulary;
  const std::int32_t bc = vocabulary.merge("b", "c");
  const std::int32_t abc = vocabulary.add("abc", TokenType::normal);  // no merge makes it
  EXPECT_EQ(vocabulary.make().encode("abc", {}), (Ids{'a', bc}));
  vocabulary.pre = "llama-bpe";
  EXPECT_EQ(vocabulary.make().encode("abc", {}), Ids{abc});
}

TEST(BytePairEncoder, DuplicateTextKeepsTheFirstIdAndBothDecode) {
  SmallVocabulary vocabulary;
  const std::int32_t first = vocabulary.merge("a", "b");
  const std::int32_t second = vocabulary.add("ab", TokenType::normal);
  const Tokenizer tokenizer = vocabulary.make();
  EXPECT_EQ(tokenizer.encode("ab", {}), Ids{first});
  EXPECT_EQ(tokenizer.decode(Ids{first, second}), "abab");
}

TEST(BytePairEncoder, MissingByteIsNamed) {
  SmallVocabulary vocabulary;
  vocabulary.bytes[0x41] = "[gone]";
  expect_error([&] { vocabulary.make(); }, ErrorCode::bad_file,
               AllOf(HasSubstr("byte 0x41"), HasSubstr("tokenizer.ggml.tokens")));
}

TEST(BytePairEncoder, MergeThatIsNoPairIsNamed) {
  for (const std::string broken : {"ab", "", "a ", " ab"}) {
    SmallVocabulary vocabulary;
    vocabulary.merges = {"a b", broken};
    expect_error(
        [&] { vocabulary.make(); }, ErrorCode::bad_file,
        AllOf(HasSubstr("merge 1 is \"" + broken + "\""), HasSubstr("tokenizer.ggml.merges")));
  }
}

GgufWriter without(GgufWriter writer, const std::string& key) {
  std::erase_if(writer.entries, [&](const auto& entry) { return entry.key == key; });
  return writer;
}

Tokenizer make(const GgufWriter& writer) {
  const TemporaryDirectory folder;
  writer.write(folder.path() / "made.gguf");
  return load(folder.path() / "made.gguf");
}

TEST(BytePairEncoder, MergesMayBeAbsentOnlyWhereNoTokenNeedsThem) {
  SmallVocabulary vocabulary;
  vocabulary.add("<|endoftext|>", TokenType::control);
  const Tokenizer bytes_only = make(without(vocabulary.writer(), "tokenizer.ggml.merges"));
  EXPECT_EQ(bytes_only.encode("hi", {}), byte_ids("hi"));
  vocabulary.add("hi", TokenType::normal);
  expect_error([&] { make(without(vocabulary.writer(), "tokenizer.ggml.merges")); },
               ErrorCode::bad_file, HasSubstr("no tokenizer.ggml.merges"));
}

// Work on one huge piece is linear in its length: each byte and each merge looks up a fixed number
// of pairs. (Quadratic work here would be 10^11 lookups: ctest's time limit is the guard for the
// rest.)
TEST(BytePairEncoder, LooksUpAtMostThreePairsAByteHoweverLongThePiece) {
  const Tokenizer tokenizer = load(made_path("dream.gguf"));
  constexpr std::size_t kBytes = 1 << 19;
  for (const std::string unit :
       {"a", " ", "\n", "=", "ab", "e\xCC\x81", "\xE6\x97\xA5", "\xF0\x9F\x98\x80"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    EncodeWork work;
    const Ids ids = tokenizer.encode(text, {.work = &work});
    EXPECT_LE(work.pieces, 2U) << unit;
    EXPECT_LE(work.merge_candidates, 3 * text.size()) << unit;
    EXPECT_LT(ids.size(), text.size()) << unit;
  }
}

}  // namespace
}  // namespace dllm::test

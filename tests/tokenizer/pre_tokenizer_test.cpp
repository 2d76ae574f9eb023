// How text is cut into pieces, seen through vocabularies in which each expected piece is one token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>

#include "expect_error.hpp"
#include "vocabularies.hpp"

namespace dllm::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr TokenizerOptions kNoNfc{.normalization = Normalization::none, .mask_id = std::nullopt};

using Pieces = std::vector<std::string>;

// Expects `pieces` joined to be cut back into `pieces`.
void expect_pieces(const std::string& pre, const Pieces& pieces) {
  SmallVocabulary vocabulary;
  vocabulary.pre = pre;
  std::string text;
  Ids expected;
  for (const std::string& piece : pieces) {
    std::int32_t id = static_cast<unsigned char>(piece[0]);
    for (std::size_t i = 1; i < piece.size(); ++i) {
      id = vocabulary.merge(piece.substr(0, i), piece.substr(i, 1));
    }
    expected.push_back(id);
    text += piece;
  }
  const Tokenizer tokenizer = vocabulary.make(kNoNfc);
  EncodeWork work;
  const Ids ids = tokenizer.encode(text, {.work = &work});
  EXPECT_EQ(work.pieces, pieces.size()) << pre << ": " << text;
  Pieces got;
  for (const std::int32_t id : ids) got.push_back(tokenizer.piece(id));
  EXPECT_EQ(got, pieces) << pre;
}

TEST(PreTokenizer, Qwen2AndItsKinCutAlike) {
  for (const std::string pre :
       {"qwen2", "bailingmoe", "bailingmoe2", "llada-moe", "megrez", "deepseek-r1-qwen"}) {
    expect_pieces(pre, {"Hello", ",", " world", "1", "2", "3", "  ", " it", "'S", " #!\n\n", "\t",
                        "\tx", " \r\n", " y", "  "});
    expect_pieces(pre, {"(self", ".x", " =", " ", "4", "2", ".\n"});
  }
}

TEST(PreTokenizer, LlamaBpeTakesDigitsByThree) {
  for (const std::string pre : {"llama-bpe", "llama3", "llama-v3"}) {
    expect_pieces(pre, {"x", "123", "45", " y", "'LL", "!\n"});
  }
}

TEST(PreTokenizer, Gpt2TakesDigitsWithTheSpaceBeforeThem) {
  for (const std::string pre : {"gpt-2", "phi-2"}) {
    expect_pieces(pre, {"it", "'s", " 1234", " ", " x", "\n", "\n", "'", "S"});
  }
}

TEST(PreTokenizer, DefaultCutsInFourPasses) {
  expect_pieces("default", {"a", "++", " ", "123", "4", "b", " c", ".", "\n"});
}

TEST(PreTokenizer, UnknownMissingAndForeignOnesAreRefusedByName) {
  SmallVocabulary vocabulary;
  vocabulary.pre = "gemma4";
  expect_error([&] { vocabulary.make(); }, ErrorCode::unsupported,
               AllOf(HasSubstr("\"gemma4\""), HasSubstr("qwen2"), HasSubstr("bailingmoe"),
                     HasSubstr("tokenizer.ggml.pre")));
  GgufWriter writer = vocabulary.writer();
  std::erase_if(writer.entries,
                [](const auto& entry) { return entry.key == "tokenizer.ggml.pre"; });
  const TemporaryDirectory folder;
  writer.write(folder.path() / "no-pre.gguf");
  expect_error([&] { load(folder.path() / "no-pre.gguf"); }, ErrorCode::bad_file,
               AllOf(HasSubstr("no tokenizer.ggml.pre"), HasSubstr("qwen2")));
}

// Probes one code point through a vocabulary with the pre-tokenizer qwen2.
class ClassProbe {
 public:
  ClassProbe() : vocabulary_(), tokenizer_(make()) {}

  bool is_number(const std::string& c) const { return pieces(c + c) == 2; }
  // "'s" is a contraction only where what is before it is not one piece with the apostrophe.
  bool is_letter(const std::string& c) const {
    return joins_mark(c) && last_token(c + "'s") == contraction_;
  }
  bool is_space(const std::string& c) const { return !joins_mark(c) && !is_number(c); }

 private:
  Tokenizer make() {
    contraction_ = vocabulary_.merge("'", "s");
    for (int lead = 0; lead < 256; ++lead)
      vocabulary_.merge("!", std::string(1, static_cast<char>(lead)));
    return vocabulary_.make(kNoNfc);
  }
  std::uint64_t pieces(const std::string& text) const {
    EncodeWork work;
    tokenizer_.encode(text, {.work = &work});
    return work.pieces;
  }
  std::int32_t last_token(const std::string& text) const {
    return tokenizer_.encode(text, {}).back();
  }
  // Whether "!" and the character are one piece: so with letters and marks, not with numbers and
  // spaces.
  bool joins_mark(const std::string& c) const {
    return tokenizer_.encode("!" + c, {}).front() >= 256;
  }

  SmallVocabulary vocabulary_;
  std::int32_t contraction_ = 0;
  Tokenizer tokenizer_;
};

bool is_white_space(std::int32_t c) {  // PropList.txt, White_Space
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

void expect_class(const ClassProbe& probe, std::int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(code_point, bytes);
  const std::string c(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  const char category = utf8proc_category_string(code_point)[0];
  EXPECT_EQ(probe.is_number(c), category == 'N') << std::hex << "U+" << code_point;
  EXPECT_EQ(probe.is_letter(c), category == 'L') << std::hex << "U+" << code_point;
  EXPECT_EQ(probe.is_space(c), is_white_space(code_point)) << std::hex << "U+" << code_point;
}

// utf8proc keeps its own tables: an oracle for the classes that the patterns give PCRE2.
TEST(PreTokenizer, ClassesAreUnicode15AtEveryBorderOfACategory) {
  if (std::string(utf8proc_unicode_version()) != "15.0.0") {
    GTEST_SKIP() << "utf8proc has Unicode " << utf8proc_unicode_version() << ", not 15.0.0";
  }
  const ClassProbe probe;
  int n_borders = 0;
  for (std::int32_t c = 1; c < 0x110000; ++c) {
    if (utf8proc_category(c - 1) == utf8proc_category(c)) continue;
    ++n_borders;
    for (const std::int32_t side : {c - 1, c}) {
      const bool is_surrogate = side >= 0xD800 && side < 0xE000;
      if (!is_surrogate && side != '\r' && side != '\n') expect_class(probe, side);
    }
  }
  EXPECT_GT(n_borders, 3000);
}

TEST(PreTokenizer, EachByteThatIsNoUtf8IsItsOwnPiece) {
  SmallVocabulary vocabulary;
  const std::int32_t e_acute = vocabulary.merge("\xC3", "\xA9");
  const Tokenizer tokenizer = vocabulary.make();
  struct Case {
    std::string text;
    std::uint64_t pieces;
    Ids ids;
  };
  const std::vector<Case> cases{
      {"a\xFF\xFE"
       "b",
       4,
       byte_ids("a\xFF\xFE"
                "b")},
      {"\xED\xA0\x80", 3, byte_ids("\xED\xA0\x80")},          // a surrogate
      {"\xC0\xAF", 2, byte_ids("\xC0\xAF")},                  // overlong
      {"\xF4\x90\x80\x80", 4, byte_ids("\xF4\x90\x80\x80")},  // above U+10FFFF
      {"\xC3\xA9\xC3", 2, {e_acute, 0xC3}},                   // cut off
      {"e\xFF\xCC\x81", 3, byte_ids("e\xFF\xCC\x81")},        // an accent does not reach over it
      {"\xFF"
       "e\xCC\x81",
       2,
       {0xFF, e_acute}},  // text beside it is normalised
  };
  for (const Case& each : cases) {
    EncodeWork work;
    EXPECT_EQ(tokenizer.encode(each.text, {.work = &work}), each.ids)
        << testing::PrintToString(each.text);
    EXPECT_EQ(work.pieces, each.pieces) << testing::PrintToString(each.text);
  }
}

// Texts on which a pattern that backtracks, or a check of the rest at each match, would be
// quadratic.
TEST(PreTokenizer, MegabytesOfOneKindEndInTime) {
  const Tokenizer tokenizer = load(made_path("dream-bailingmoe.gguf"));
  for (const std::string unit :
       {"1", " \n", "\xE3\x80\x80", "'", "\xFF ", "\xCC\xA3\xCC\x81", "<|im_start|>", "<|"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    EXPECT_FALSE(tokenizer.encode(text + "x", {}).empty());
  }
}

}  // namespace
}  // namespace dllm::test

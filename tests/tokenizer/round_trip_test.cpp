// decode(encode(x)) over random texts, broken ones included.
#include <gtest/gtest.h>

#include <random>

#include "vocabularies.hpp"

namespace dllm::test {
namespace {

constexpr TokenizerOptions kNoNfc{.normalization = Normalization::none, .mask_id = std::nullopt};

void append_code_point(std::string& out, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

// Mixes ASCII, marks, scripts, planes, steering texts and raw bytes (also surrogates and NUL).
std::string random_text(std::mt19937& random, bool with_broken_bytes) {
  std::string text;
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (auto n = below(60); n > 0; --n) {
    switch (below(with_broken_bytes ? 8 : 7)) {
      case 0:
        append_code_point(text, below(0x80));
        break;
      case 1:
        append_code_point(text, 0x300 + below(0x70));
        break;
      case 2:
        append_code_point(text, below(0xD800));
        break;
      case 3:
        append_code_point(text, 0xE000 + below(0x110000 - 0xE000));
        break;
      case 4:
        text += " \n\r\t'"[below(5)];
        break;
      case 5:
        text += "<|im_end|>";
        break;
      case 6:
        append_code_point(text, 0xAC00 + below(0x2BA4));
        break;
      default:
        text.push_back(static_cast<char>(below(256)));
    }
  }
  return text;
}

TEST(TokenizerRoundTrip, DecodeOfEncodeIsTheTextByteForByteWithoutNormalisation) {
  for (const std::string name : {"dream.gguf", "llada-layout.gguf"}) {
    const Tokenizer tokenizer = load(made_path(name), kNoNfc);
    std::mt19937 random(20);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = random_text(random, true);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, {})), text) << testing::PrintToString(text);
    }
  }
}

TEST(TokenizerRoundTrip, EveryPreTokenizerKeepsEveryByte) {
  std::mt19937 random(21);
  for (const std::string pre : {"bailingmoe", "qwen2", "llama-bpe", "gpt-2", "default"}) {
    SmallVocabulary vocabulary;
    vocabulary.pre = pre;
    const Tokenizer tokenizer = vocabulary.make(kNoNfc);
    for (int i = 0; i < 1000; ++i) {
      const std::string text = random_text(random, true);
      ASSERT_EQ(tokenizer.encode(text, {}), byte_ids(text))
          << pre << ' ' << testing::PrintToString(text);
    }
  }
}

// Only normalisation may change a text, and it changes it once.
TEST(TokenizerRoundTrip, NormalisedTextEncodesToTheSameIdsAgain) {
  const Tokenizer tokenizer = load(made_path("dream.gguf"));
  std::mt19937 random(22);
  int n_changed = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = random_text(random, i % 2 == 0);
    const Ids ids = tokenizer.encode(text, {});
    const std::string normalised = tokenizer.decode(ids);
    n_changed += normalised != text;
    ASSERT_EQ(tokenizer.encode(normalised, {}), ids) << testing::PrintToString(text);
  }
  EXPECT_GT(n_changed, 400);
}

}  // namespace
}  // namespace dllm::test

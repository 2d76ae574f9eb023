// decode(encode(x)) over random texts, broken ones included, and every vocabulary there is.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "property.hpp"
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

constexpr const char* kVocabularies[] = {"qwen2.5.gguf",         "qwen3.gguf",
                                         "dream.gguf",           "dream-bailingmoe.gguf",
                                         "dream-llada-moe.gguf", "llada-layout.gguf"};

TEST(TokenizerProperties, DecodeOfEncodeIsTheTextOverEveryVocabulary) {
  for (const std::string name : kVocabularies) {
    const Tokenizer tokenizer = load(made_path(name), kNoNfc);
    Property property("decode(encode(x)) is x, " + name, 20, 2000);
    for (int i = 0; i < property.rounds(); ++i) {
      const std::string text = random_text(property.random(), true);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, {})), text)
          << name << ", round " << i << ": " << testing::PrintToString(text);
    }
  }
}

std::string nfc_of(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  if (size < 0) throw std::runtime_error(utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(size)};
}

// By the library itself on the whole text; the conformance suite asks Python's unicodedata.
TEST(TokenizerProperties, DecodeOfEncodeIsTheNfcOverEveryVocabulary) {
  for (const std::string name : kVocabularies) {
    const Tokenizer tokenizer = load(made_path(name));
    Property property("decode(encode(x)) is the NFC of x, " + name, 23, 1000);
    int n_changed = 0;
    for (int i = 0; i < property.rounds(); ++i) {
      const std::string text = random_text(property.random(), false);
      const std::string want = nfc_of(text);
      n_changed += want != text;
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, {})), want)
          << name << ", round " << i << ": " << testing::PrintToString(text);
    }
    EXPECT_GT(n_changed, property.rounds() / 10);
  }
}

TEST(TokenizerProperties, EveryPreTokenizerKeepsEveryByte) {
  Property property("every pre-tokenizer keeps every byte", 21, 1000);
  for (const std::string pre : {"bailingmoe", "qwen2", "llama-bpe", "gpt-2", "default"}) {
    SmallVocabulary vocabulary;
    vocabulary.pre = pre;
    const Tokenizer tokenizer = vocabulary.make(kNoNfc);
    for (int i = 0; i < property.rounds(); ++i) {
      const std::string text = random_text(property.random(), true);
      ASSERT_EQ(tokenizer.encode(text, {}), byte_ids(text))
          << pre << ' ' << testing::PrintToString(text);
    }
  }
}

// Only normalisation may change a text, and it changes it once.
TEST(TokenizerProperties, NormalisedTextEncodesToTheSameIdsAgain) {
  const Tokenizer tokenizer = load(made_path("dream.gguf"));
  Property property("normalising twice changes nothing", 22, 4000);
  int n_changed = 0;
  for (int i = 0; i < property.rounds(); ++i) {
    const std::string text = random_text(property.random(), i % 2 == 0);
    const Ids ids = tokenizer.encode(text, {});
    const std::string normalised = tokenizer.decode(ids);
    n_changed += normalised != text;
    ASSERT_EQ(tokenizer.encode(normalised, {}), ids) << testing::PrintToString(text);
  }
  EXPECT_GT(n_changed, 400);
}

}  // namespace
}  // namespace dllm::test

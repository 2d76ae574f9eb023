// Encoding and decoding any text with working vocabularies, one for each family of pre-tokenizers.
// Input: a byte that chooses, then the text.
#include <array>
#include <memory>

#include "small_vocabulary.hpp"
#include "tokenizer_properties.hpp"

namespace {

using namespace dllm::test;
using dllm::Normalization;
using dllm::Tokenizer;
using dllm::TokenType;

constexpr std::array<const char*, 5> kPreTokenizers{"qwen2", "bailingmoe", "llama-bpe", "gpt-2",
                                                    "default"};

Tokenizer make(const char* pre, Normalization normalization) {
  SmallVocabulary vocabulary;
  vocabulary.pre = pre;
  for (const char* pair : {"th", "he", "in", "er", "  ", "\n\n", "\xC3\xA9", "\xE4\xB8"}) {
    const std::string_view both(pair);
    vocabulary.merge(both.substr(0, 1), both.substr(1));
  }
  vocabulary.merge("th", "e");
  vocabulary.merge(" ", "the");
  vocabulary.merge("\xE4\xB8", "\xAD");
  const auto mark = [&](const char* text, const char* key) {
    const std::int32_t id = vocabulary.add(text, TokenType::control);
    if (key != nullptr) vocabulary.more.set(key, static_cast<std::uint32_t>(id));
  };
  mark("<|mask|>", "tokenizer.ggml.mask_token_id");
  mark("<|endoftext|>", "tokenizer.ggml.eos_token_id");
  mark("<|startoftext|>", "tokenizer.ggml.bos_token_id");
  mark("<|im_start|>", nullptr);
  mark("<|im_end|>", nullptr);
  vocabulary.add("<tool_call>", TokenType::user_defined);
  vocabulary.add("<tool>", TokenType::user_defined);
  vocabulary.more.set("tokenizer.ggml.add_bos_token", false);
  return vocabulary.make({.normalization = normalization, .mask_id = std::nullopt});
}

struct Tokenizers {
  std::vector<Tokenizer> exact, normalized;
  Tokenizers() {
    for (const char* pre : kPreTokenizers) {
      exact.push_back(make(pre, Normalization::none));
      normalized.push_back(make(pre, Normalization::reference));
    }
  }
};

void check_exact(const Tokenizer& tokenizer, const std::string& text) {
  dllm::EncodeWork work;
  const Ids ids = tokenizer.encode(text, {.parse_special = false, .work = &work});
  require_plain(tokenizer, ids);
  FUZZ_REQUIRE(tokenizer.decode(ids) == text);
  FUZZ_REQUIRE(pieces_of(tokenizer, ids) == text);
  FUZZ_REQUIRE(work.merge_candidates <= 3 * text.size());
  FUZZ_REQUIRE(ids.size() <= text.size() && work.pieces <= text.size());
  const Ids parsed = tokenizer.encode(text, {.parse_special = true});
  FUZZ_REQUIRE(tokenizer.decode(parsed, true) == text);
}

// Only normalisation may change a text, and it changes it once.
void check_normalized(const Tokenizer& tokenizer, const std::string& text) {
  const Ids ids = tokenizer.encode(text, {});
  require_plain(tokenizer, ids);
  FUZZ_REQUIRE(tokenizer.encode(tokenizer.decode(ids), {}) == ids);
}

// The text's bytes as ids: any sequence may come out of a model.
void check_any_ids(const Tokenizer& tokenizer, const std::string& text, std::uint32_t bits) {
  Ids ids;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const auto low = static_cast<unsigned char>(text[i]);
    const auto high = static_cast<unsigned char>(text[i + 1]);
    ids.push_back(static_cast<std::int32_t>((low | high << 8) % tokenizer.n_tokens()));
  }
  check_shown(tokenizer, ids, bits);
  ids.push_back(static_cast<std::int32_t>(tokenizer.n_tokens() + bits % 7));
  const auto error = refusal_of([&] { tokenizer.decode(ids); });
  FUZZ_REQUIRE(error && error->code() == dllm::ErrorCode::bad_usage);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizers tokenizers;
  ByteReader in(data, size);
  const std::uint32_t which = in.below(kPreTokenizers.size());
  const std::string text = in.rest();
  check_exact(tokenizers.exact[which], text);
  check_normalized(tokenizers.normalized[which], text);
  check_any_ids(tokenizers.exact[which], text, static_cast<std::uint32_t>(size * 2654435761U));
  return 0;
}

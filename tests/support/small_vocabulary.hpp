// Small byte-level vocabularies as GGUF files, for tests of tokenizers.
//
//   SmallVocabulary vocabulary;
//   vocabulary.merge("a", "b");
//   Tokenizer tokenizer = vocabulary.make();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/tokenizer.hpp"
#include "gguf_writer.hpp"

namespace dllm::test {

/// `bytes` as a token text.
std::string in_byte_alphabet(std::string_view bytes);

/// A vocabulary: the 256 bytes in numeric order, so that ids below 256 are bytes, then `extra`
/// tokens.
struct SmallVocabulary {
  struct Token {
    std::string text;  ///< as the file has it
    TokenType type = TokenType::normal;
  };
  std::string pre = "qwen2";
  std::vector<std::string> bytes = all_bytes();
  std::vector<Token> extra;
  std::vector<std::string> merges;
  bool with_types = true;
  GgufWriter more;  ///< further keys

  static std::vector<std::string> all_bytes();

  /// Adds the merge of two strings of bytes and the token it makes; returns that token's id.
  std::int32_t merge(std::string_view left, std::string_view right);
  std::int32_t add(std::string text, TokenType type);

  GgufWriter writer() const;
  Tokenizer make(TokenizerOptions options = {}) const;
};

}  // namespace dllm::test

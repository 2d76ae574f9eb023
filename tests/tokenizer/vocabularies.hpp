// The vocabularies that make_vocabularies.py wrote, and small ones made on the spot.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dllm/gguf.hpp"
#include "dllm/tokenizer.hpp"
#include "gguf_writer.hpp"

namespace dllm::test {

inline std::filesystem::path data_path(const std::string& name) {
  return std::filesystem::path(DLLM_TEST_DATA) / "data" / name;
}

inline std::filesystem::path made_path(const std::string& name) {
  return std::filesystem::path(DLLM_TOKENIZER_VOCABULARIES) / name;
}

inline Tokenizer load(const std::filesystem::path& path, TokenizerOptions options = {}) {
  return Tokenizer::from_gguf(*GgufFile::open(path), options);
}

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

/// The ids of each byte in a SmallVocabulary.
inline std::vector<std::int32_t> byte_ids(std::string_view bytes) {
  std::vector<std::int32_t> ids;
  for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

using Ids = std::vector<std::int32_t>;

}  // namespace dllm::test

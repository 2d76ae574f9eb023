// The vocabulary of a GGUF file: bytes and type of every token, and the ids with a meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/gguf.hpp"
#include "dllm/tokenizer.hpp"
#include "tokenizer/text_index.hpp"

namespace dllm::tokenizing {

/// Thread rule: const after construction, any thread.
class Vocabulary {
 public:
  /// Reads `tokenizer.ggml.tokens`, `.token_type` and `.scores` (only its length counts).
  explicit Vocabulary(const GgufFile& file);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::int32_t size() const { return static_cast<std::int32_t>(types_.size()); }
  bool contains(std::int64_t id) const { return id >= 0 && id < size(); }
  TokenType type(std::int32_t id) const { return types_[index(id)]; }
  void set_type(std::int32_t id, TokenType type) { types_[index(id)] = type; }

  /// What the token stands for: bytes of a normal token, the text of any other.
  std::string_view bytes(std::int32_t id) const {
    return std::string_view(arena_).substr(ends_[index(id)],
                                           ends_[index(id) + 1] - ends_[index(id)]);
  }

  /// The lowest id with these bytes, or -1. Tokens written outside the byte alphabet are not found.
  std::int32_t find(std::string_view bytes) const {
    return ids_.find(bytes, [this](std::int32_t id) { return this->bytes(id); });
  }

  /// Whether the merges can be left out: no normal token is longer than a byte.
  bool has_only_single_bytes() const;

 private:
  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
  void read_tokens(const std::vector<std::string_view>& texts);

  std::string arena_;              ///< bytes of all tokens, one after another
  std::vector<std::size_t> ends_;  ///< n + 1 offsets into arena_
  std::vector<TokenType> types_;
  TextIndex ids_{0};
};

/// Which ids mean what, from `tokenizer.ggml.*_token_id` and the texts of known markers.
struct Meanings {
  SpecialIds special;
  std::vector<std::int32_t> stop_ids;  ///< sorted
  std::vector<std::int32_t> reserved;  ///< never come from user text: sorted, no doubles
  bool add_bos = false;
  bool add_eos = false;
};

/// Throws Error naming key, id and vocabulary size for an id out of range. Reserved tokens that the
/// file calls normal or user-defined become control tokens of `vocabulary`.
Meanings read_meanings(const GgufFile& file, Vocabulary& vocabulary,
                       std::optional<std::int32_t> mask_id, bool add_bos_by_default);

/// "model.gguf, tokenizer.ggml.tokens"
std::string place(const GgufFile& file, std::string_view key);

/// A required array of strings. Throws Error (bad_file) naming the key.
const std::vector<std::string_view>& string_array(const GgufFile& file, std::string_view key);

}  // namespace dllm::tokenizing

// Finds the texts of special tokens in raw text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace dllm::tokenizing {

/// Leftmost occurrence first, the longest token of several at one place (as Hugging Face's
/// added-token search; llama.cpp takes the longest token anywhere first, which differs only where
/// two special tokens overlap in the text). Time: text length times the longest special token (256
/// bytes), at worst, whatever the number of tokens. Thread rule: const after construction, any thread.
class SpecialMatcher {
 public:
  /// `wanted(id)` says which tokens to look for. Views into `vocabulary` are kept. Throws Error
  /// (unsupported) naming a token longer than 256 bytes.
  SpecialMatcher(const Vocabulary& vocabulary, const std::function<bool(std::int32_t)>& wanted);

  /// Calls `text` with what is between the tokens (never empty) and `token` with each token, in
  /// order.
  void split(std::string_view input, const std::function<void(std::string_view)>& text,
             const std::function<void(std::int32_t)>& token) const;

 private:
  struct Entry {
    std::string_view bytes;
    std::int32_t id;
  };
  /// The longest token that `input` begins with, or null.
  const Entry* longest_at(std::string_view input) const;

  std::vector<Entry> entries_;                         ///< sorted by bytes, no doubles
  std::array<std::uint32_t, 257> first_byte_begin_{};  ///< entries by their first byte
};

}  // namespace dllm::tokenizing

// Finds the texts of special tokens in raw text.
//
//   SpecialMatcher matcher({{"<think>", 7}, {"</think>", 8}});
//   matcher.split("a<think>", take_text, take_token);   // take_text("a"), take_token(7)
//
// Model files choose the tokens and users the text, so no pair of them may be slow: an automaton in
// the manner of Aho and Corasick (Communications of the ACM 18, 1975) that reads from the end.
// Going backwards, the longest token which ends the reversed text read so far is the longest token
// that begins here; a forward pass then takes them from left to right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace dllm::tokenizing {

/// Leftmost occurrence first, the longest token of several at one place (as Hugging Face's
/// added-token search; llama.cpp takes the longest token anywhere first, which differs only where
/// two special tokens overlap in the text). Thread rule: const after construction, any thread.
class SpecialMatcher {
 public:
  struct Token {
    std::string_view bytes;  ///< kept: outlives the matcher
    std::int32_t id;
  };
  /// Bytes of all tokens together; known vocabularies stay below a thousandth of it.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

  /// Tokens without bytes are never found; of equal ones the lowest id is. Memory: 13 bytes a byte
  /// of the tokens. Time: that of sorting them. At most kMostBytes.
  explicit SpecialMatcher(std::vector<Token> tokens);

  /// Calls `text` with what is between the tokens (never empty) and `token` with each token, in
  /// order. Memory: 16 bytes a place of `input` where a token begins. Returns the steps through the
  /// automaton, at most two a byte whatever the tokens, for tests of that bound.
  std::uint64_t split(std::string_view input, const std::function<void(std::string_view)>& text,
                      const std::function<void(std::int32_t)>& token) const;

  /// States of the automaton: at most one more than the tokens have bytes.
  std::size_t n_states() const { return states_.size() - 1; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// One suffix of a token. States are numbered by length, so children of one are neighbours and
  /// end where the next state's begin.
  struct State {
    std::uint32_t first_child = 0;
    std::uint32_t fallback = 0;     ///< the longest other suffix that this one, read on, may be
    std::uint32_t longest = kNone;  ///< index of the longest token that begins here
  };
  /// Tokens, by index, that agree in their last bytes.
  struct Range {
    std::uint32_t begin;
    std::uint32_t end;
  };

  void add_children(std::uint32_t parent, std::size_t depth, Range range,
                    std::vector<Range>& children);
  std::uint32_t child(std::uint32_t state, unsigned char byte) const;
  std::uint32_t next(std::uint32_t state, unsigned char byte, std::uint64_t& steps) const;

  std::vector<Token> tokens_;          ///< sorted by their bytes from last to first, no doubles
  std::vector<State> states_;          ///< the root first; one more at the end
  std::vector<unsigned char> labels_;  ///< byte that leads to a state
  std::array<std::uint32_t, 256> from_root_{};
};

}  // namespace dllm::tokenizing

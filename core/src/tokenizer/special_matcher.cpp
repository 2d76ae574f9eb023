#include "tokenizer/special_matcher.hpp"

#include <algorithm>

namespace dllm::tokenizing {
namespace {

unsigned char byte_from_end(std::string_view bytes, std::size_t i) {
  return static_cast<unsigned char>(bytes[bytes.size() - 1 - i]);
}

using Token = SpecialMatcher::Token;

// Neighbours share their last bytes; equal texts keep their lowest id.
void sort_from_end(std::vector<Token>& tokens) {
  std::erase_if(tokens, [](const Token& token) { return token.bytes.empty(); });
  std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) {
    if (a.bytes == b.bytes) return a.id < b.id;
    return std::lexicographical_compare(
        a.bytes.rbegin(), a.bytes.rend(), b.bytes.rbegin(), b.bytes.rend(), [](char x, char y) {
          return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
        });
  });
  const auto doubles =
      std::unique(tokens.begin(), tokens.end(),
                  [](const Token& a, const Token& b) { return a.bytes == b.bytes; });
  tokens.erase(doubles, tokens.end());
}

}  // namespace

SpecialMatcher::SpecialMatcher(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  sort_from_end(tokens_);
  states_.emplace_back();
  labels_.push_back(0);
  std::vector<Range> level{{0, static_cast<std::uint32_t>(tokens_.size())}};
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Range> children;
    auto parent = static_cast<std::uint32_t>(states_.size() - level.size());
    for (const Range range : level) add_children(parent++, depth, range, children);
    level = std::move(children);
  }
  states_.push_back({.first_child = static_cast<std::uint32_t>(states_.size())});
}

// What a fallback needs is there: it is shorter than the parent, so its children are known, and
// they end at the latest where the parent's begin.
void SpecialMatcher::add_children(std::uint32_t parent, std::size_t depth, Range range,
                                  std::vector<Range>& children) {
  states_[parent].first_child = static_cast<std::uint32_t>(states_.size());
  std::uint32_t begin = range.begin;
  if (begin != range.end && tokens_[begin].bytes.size() == depth) ++begin;  // the parent itself
  while (begin != range.end) {
    const unsigned char byte = byte_from_end(tokens_[begin].bytes, depth);
    std::uint32_t end = begin + 1;
    while (end != range.end && byte_from_end(tokens_[end].bytes, depth) == byte) ++end;
    State state;
    std::uint64_t steps = 0;
    if (parent != 0) state.fallback = next(states_[parent].fallback, byte, steps);
    const bool is_token = tokens_[begin].bytes.size() == depth + 1;
    state.longest = is_token ? begin : states_[state.fallback].longest;
    if (parent == 0) from_root_[byte] = static_cast<std::uint32_t>(states_.size());
    states_.push_back(state);
    labels_.push_back(byte);
    children.push_back({begin, end});
    begin = end;
  }
}

// 0, which is the root and nobody's child, where there is none.
std::uint32_t SpecialMatcher::child(std::uint32_t state, unsigned char byte) const {
  if (state == 0) return from_root_[byte];
  const auto begin = labels_.begin() + states_[state].first_child;
  const auto end = labels_.begin() + states_[state + 1].first_child;
  const auto found = std::lower_bound(begin, end, byte);
  return found != end && *found == byte ? static_cast<std::uint32_t>(found - labels_.begin()) : 0;
}

// Each byte read makes the state at most one longer and each fallback at least one shorter: no more
// fallbacks than bytes.
std::uint32_t SpecialMatcher::next(std::uint32_t state, unsigned char byte,
                                   std::uint64_t& steps) const {
  for (;; state = states_[state].fallback) {
    ++steps;
    const std::uint32_t longer = child(state, byte);
    if (longer != 0 || state == 0) return longer;
  }
}

std::uint64_t SpecialMatcher::split(std::string_view input,
                                    const std::function<void(std::string_view)>& text,
                                    const std::function<void(std::int32_t)>& token) const {
  struct Found {
    std::size_t at;
    std::uint32_t token;
  };
  std::vector<Found> found;  // from the last place to the first
  std::uint64_t steps = 0;
  std::uint32_t state = 0;
  for (std::size_t at = input.size(); at-- > 0;) {
    state = next(state, static_cast<unsigned char>(input[at]), steps);
    if (states_[state].longest != kNone) found.push_back({at, states_[state].longest});
  }

  std::size_t text_begin = 0;
  for (auto here = found.rbegin(); here != found.rend(); ++here) {
    if (here->at < text_begin) continue;  // inside the token before
    if (here->at > text_begin) text(input.substr(text_begin, here->at - text_begin));
    token(tokens_[here->token].id);
    text_begin = here->at + tokens_[here->token].bytes.size();
  }
  if (input.size() > text_begin) text(input.substr(text_begin));
  return steps;
}

}  // namespace dllm::tokenizing

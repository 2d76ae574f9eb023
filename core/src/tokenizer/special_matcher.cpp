#include "tokenizer/special_matcher.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dllm/error.hpp"

namespace dllm::tokenizing {
namespace {

unsigned char byte_at(std::string_view bytes, std::size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

// Finding costs up to this many steps a byte of text, so the file must not choose it. Known
// vocabularies stay below 64.
constexpr std::size_t kLongest = 256;

void check_length(std::string_view bytes, std::int32_t id) {
  if (bytes.size() <= kLongest) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("special token {} has {} bytes, at most {} are supported", id,
                          bytes.size(), kLongest),
              "tokenizer.ggml.tokens", "convert the model again, with such tokens as normal ones");
}

}  // namespace

SpecialMatcher::SpecialMatcher(const Vocabulary& vocabulary,
                               const std::function<bool(std::int32_t)>& wanted) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!wanted(id) || vocabulary.bytes(id).empty()) continue;
    check_length(vocabulary.bytes(id), id);
    entries_.push_back({vocabulary.bytes(id), id});
  }
  // std::string_view compares as unsigned bytes; equal texts keep their lowest id.
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  entries_.erase(std::unique(entries_.begin(), entries_.end(),
                             [](const Entry& a, const Entry& b) { return a.bytes == b.bytes; }),
                 entries_.end());
  for (const Entry& entry : entries_) ++first_byte_begin_[byte_at(entry.bytes, 0) + 1u];
  for (std::size_t i = 1; i < first_byte_begin_.size(); ++i) {
    first_byte_begin_[i] += first_byte_begin_[i - 1];
  }
}

// The entries that agree with `input` in their first `length` bytes are neighbours; each byte more
// narrows them by two binary searches.
const SpecialMatcher::Entry* SpecialMatcher::longest_at(std::string_view input) const {
  auto begin = entries_.begin() + first_byte_begin_[byte_at(input, 0)];
  auto end = entries_.begin() + first_byte_begin_[byte_at(input, 0) + 1u];
  const Entry* longest = nullptr;
  for (std::size_t length = 1; begin != end; ++length) {
    if (begin->bytes.size() == length) longest = &*begin++;
    if (length == input.size()) break;
    const unsigned char next = byte_at(input, length);
    begin = std::lower_bound(begin, end, next, [&](const Entry& entry, unsigned char byte) {
      return byte_at(entry.bytes, length) < byte;
    });
    end = std::upper_bound(begin, end, next, [&](unsigned char byte, const Entry& entry) {
      return byte < byte_at(entry.bytes, length);
    });
  }
  return longest;
}

void SpecialMatcher::split(std::string_view input,
                           const std::function<void(std::string_view)>& text,
                           const std::function<void(std::int32_t)>& token) const {
  std::size_t text_begin = 0;
  std::size_t at = 0;
  while (at < input.size()) {
    const Entry* found = longest_at(input.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    if (at > text_begin) text(input.substr(text_begin, at - text_begin));
    token(found->id);
    at += found->bytes.size();
    text_begin = at;
  }
  if (input.size() > text_begin) text(input.substr(text_begin));
}

}  // namespace dllm::tokenizing

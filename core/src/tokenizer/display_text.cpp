#include "dllm/display_text.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "dllm/error.hpp"

namespace dllm {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Appends the decoded bytes of a run of known tokens. At its edges parts of characters may be
// waiting for their other bytes in a masked neighbour.
void append_run(std::string& out, std::string_view bytes, std::string_view placeholder) {
  std::size_t lost_head = 0;  // at most 3 bytes follow a lead byte
  while (lost_head < std::min<std::size_t>(bytes.size(), 3) &&
         is_continuation_byte(bytes[lost_head])) {
    ++lost_head;
  }
  if (lost_head > 0) out += placeholder;
  bytes.remove_prefix(lost_head);
  while (!bytes.empty()) {
    const Utf8Step step = next_utf8(bytes);
    switch (step.kind) {
      case Utf8Kind::character:
        out += bytes.substr(0, step.size);
        break;
      case Utf8Kind::ill_formed:
        out += kReplacement;
        break;
      case Utf8Kind::truncated:
        out += placeholder;
        break;
    }
    bytes.remove_prefix(step.size);
  }
}

}  // namespace

std::string display_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                         std::span<const std::uint8_t> known, std::string_view placeholder) {
  DLLM_ASSERT(ids.size() == known.size());
  std::string out;
  for (std::size_t at = 0; at < ids.size();) {
    if (!known[at]) {
      out += placeholder;
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < ids.size() && known[end]) ++end;
    append_run(out, tokenizer.decode(ids.subspan(at, end - at)), placeholder);
    at = end;
  }
  return out;
}

std::string final_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  return replace_invalid_utf8(tokenizer.decode(ids));
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    if (const std::size_t valid = valid_utf8_prefix(bytes); valid > 0) {
      out += bytes.substr(0, valid);
      bytes.remove_prefix(valid);
      continue;
    }
    out += kReplacement;
    bytes.remove_prefix(next_utf8(bytes).size);
  }
  return out;
}

}  // namespace dllm

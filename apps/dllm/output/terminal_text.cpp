#include "output/terminal_text.hpp"

namespace dllm::cli {

std::size_t character_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xE0) return 2;
  return lead < 0xF0 ? 3 : 4;
}

char32_t decode_character(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character.front());
  constexpr unsigned kLeadBits[] = {0x7F, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t point = lead & kLeadBits[character.size()];
  for (const char c : character.substr(1)) {
    point = (point << 6) | (static_cast<unsigned char>(c) & 0x3F);
  }
  return point;
}

bool steers_terminal(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

std::string harmless_on_terminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view character =
        text.substr(0, character_bytes(static_cast<unsigned char>(text.front())));
    text.remove_prefix(character.size());
    const bool kept =
        character == "\n" || character == "\t" || !steers_terminal(decode_character(character));
    out += kept ? character : kReplacement;
  }
  return out;
}

}  // namespace dllm::cli

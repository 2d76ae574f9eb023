#include "fault.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "utf8.hpp"

namespace dllm::gguf {
namespace {

// Control characters, C1 included: a terminal would act on them.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

// `special` characters get a backslash.
std::string escaped(std::string_view bytes, std::string_view special) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0 || is_control(bytes.substr(0, length))) {
      text += fmt::format("\\x{:02X}", static_cast<unsigned char>(bytes.front()));
      bytes.remove_prefix(1);
      continue;
    }
    if (special.find(bytes.front()) != special.npos) text += '\\';
    text += bytes.substr(0, length);
    bytes.remove_prefix(length);
  }
  return text;
}

}  // namespace

std::string one_line(std::string_view bytes) { return escaped(bytes, ""); }

std::string in_quotes(std::string_view bytes) {
  constexpr std::size_t kShown = 80;
  if (bytes.size() <= kShown) return fmt::format("\"{}\"", escaped(bytes, "\"\\"));
  std::size_t cut = kShown;
  while (cut > kShown - 3 && (static_cast<unsigned char>(bytes[cut]) & 0xC0) == 0x80) --cut;
  return fmt::format("\"{}\"... ({} bytes)", escaped(bytes.substr(0, cut), "\"\\"), bytes.size());
}

std::string printable_path(const std::filesystem::path& path) { return one_line(path.native()); }

}  // namespace dllm::gguf

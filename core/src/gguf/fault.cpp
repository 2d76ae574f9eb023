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

}  // namespace

std::string one_line(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    const auto first = static_cast<unsigned char>(bytes.front());
    if (length == 0 || is_control(bytes.substr(0, length))) {
      text += fmt::format("\\x{:02X}", first);
      bytes.remove_prefix(1);
    } else {
      text += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return text;
}

std::string in_quotes(std::string_view bytes) {
  constexpr std::size_t kShown = 80;
  if (bytes.size() <= kShown) return fmt::format("\"{}\"", one_line(bytes));
  return fmt::format("\"{}\"... ({} bytes)", one_line(bytes.substr(0, kShown)), bytes.size());
}

std::string printable_path(const std::filesystem::path& path) { return one_line(path.native()); }

}  // namespace dllm::gguf

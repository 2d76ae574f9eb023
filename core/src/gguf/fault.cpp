#include "gguf/fault.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "base/utf8.hpp"

namespace dllm::gguf {
namespace {

// `special` characters get a backslash.
std::string escaped(std::string_view bytes, std::string_view special) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Step step = next_utf8(bytes);
    if (step.kind != Utf8Kind::character || is_control(step.code_point)) {
      text += fmt::format("\\x{:02X}", static_cast<unsigned char>(bytes.front()));
      bytes.remove_prefix(1);
      continue;
    }
    if (special.find(bytes.front()) != special.npos) text += '\\';
    text += bytes.substr(0, step.size);
    bytes.remove_prefix(step.size);
  }
  return text;
}

}  // namespace

std::string one_line(std::string_view bytes) { return escaped(bytes, ""); }

std::string in_quotes(std::string_view bytes) {
  constexpr std::size_t kShown = 80;
  if (bytes.size() <= kShown) return fmt::format("\"{}\"", escaped(bytes, "\"\\"));
  std::size_t cut = kShown;
  while (cut > kShown - 3 && is_continuation_byte(bytes[cut])) --cut;
  return fmt::format("\"{}\"... ({} bytes)", escaped(bytes.substr(0, cut), "\"\\"), bytes.size());
}

std::string printable_path(const std::filesystem::path& path) { return one_line(path.native()); }

}  // namespace dllm::gguf

#include "arguments/escapes.hpp"

#include <charconv>

namespace dllm::cli {
namespace {

// Reads "HH" or "H" at `digits`; returns how many digits were used, 0 for none.
std::size_t read_hex(std::string_view digits, char& byte) {
  unsigned value = 0;
  const char* const end = digits.data() + (digits.size() < 2 ? digits.size() : 2);
  const auto result = std::from_chars(digits.data(), end, value, 16);
  if (result.ec != std::errc()) return 0;
  byte = static_cast<char>(value);
  return static_cast<std::size_t>(result.ptr - digits.data());
}

char simple_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return letter;
  }
}

}  // namespace

std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char letter = text[i + 1];
    char byte = 0;
    if (std::string_view("nrt'\"\\").find(letter) != std::string_view::npos) {
      out += simple_escape(letter);
      ++i;
    } else if (const std::size_t used = letter == 'x' ? read_hex(text.substr(i + 2), byte) : 0;
               used != 0) {
      out += byte;
      i += 1 + used;
    } else {
      out += '\\';
    }
  }
  return out;
}

}  // namespace dllm::cli

#include "arguments/escapes.hpp"

namespace dllm::cli {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads "HH" or "H" at the start of `text`; returns how many digits were used, 0 for none.
std::size_t read_hex(std::string_view text, char& byte) {
  unsigned value = 0;
  std::size_t used = 0;
  for (; used < 2 && used < text.size() && hex_digit(text[used]) >= 0; ++used) {
    value = value * 16 + static_cast<unsigned>(hex_digit(text[used]));
  }
  byte = static_cast<char>(value);
  return used;
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

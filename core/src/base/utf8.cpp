#include "base/utf8.hpp"

namespace dllm {
namespace {

struct Lead {
  std::size_t size = 0;    ///< bytes of the whole sequence, 0 for a byte that starts none
  std::uint32_t bits = 0;  ///< the lead byte's share of the code point
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

// Unicode 15, table 3-7: the second byte's range shuts out overlong forms, surrogates and code
// points above U+10FFFF.
Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, byte};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2, byte & 0x1Fu};
  if (byte == 0xE0) return {3, 0, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x0D, 0x80, 0x9F};
  if (byte < 0xF0) return {3, byte & 0x0Fu};
  if (byte == 0xF0) return {4, 0, 0x90, 0xBF};
  if (byte < 0xF4) return {4, byte & 0x07u};
  if (byte == 0xF4) return {4, 4, 0x80, 0x8F};
  return {};
}

}  // namespace

Utf8Step next_utf8(std::string_view bytes) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const Lead lead = lead_of(byte_at(0));
  if (lead.size == 0) return {Utf8Kind::ill_formed, 1, 0};
  std::uint32_t code_point = lead.bits;
  for (std::size_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {Utf8Kind::truncated, i, 0};
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte_at(i) < low || byte_at(i) > high) return {Utf8Kind::ill_formed, i, 0};
    code_point = code_point << 6 | (byte_at(i) & 0x3Fu);
  }
  return {Utf8Kind::character, lead.size, code_point};
}

std::size_t valid_utf8_prefix(std::string_view bytes) {
  std::size_t end = 0;
  while (end < bytes.size()) {
    if (static_cast<unsigned char>(bytes[end]) < 0x80) {
      ++end;
      continue;
    }
    const Utf8Step step = next_utf8(bytes.substr(end));
    if (step.kind != Utf8Kind::character) break;
    end += step.size;
  }
  return end;
}

void append_utf8(std::string& out, std::uint32_t code_point) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace dllm

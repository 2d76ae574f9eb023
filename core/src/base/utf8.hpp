// Going through UTF-8 that may be broken, step by step. Thread rule: pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dllm {

enum class Utf8Kind {
  character,   ///< a well-formed sequence
  ill_formed,  ///< a maximal ill-formed part (Unicode 15, section 3.9, table 3-7)
  truncated    ///< well formed so far, but the text ends inside the sequence
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::ill_formed;
  std::size_t size = 0;          ///< bytes of this step, at least 1
  std::uint32_t code_point = 0;  ///< of a character
};

/// What `bytes` begins with; `bytes` is not empty.
Utf8Step next_utf8(std::string_view bytes);

/// How many bytes at the front of `bytes` are well-formed UTF-8.
std::size_t valid_utf8_prefix(std::string_view bytes);

void append_utf8(std::string& out, std::uint32_t code_point);

/// C0, DEL and C1: a terminal would act on them.
inline bool is_control(std::uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

inline bool is_continuation_byte(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace dllm

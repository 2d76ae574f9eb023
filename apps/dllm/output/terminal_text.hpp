// What a model wrote may be shown on a terminal, but may not steer it.
//
//   harmless_on_terminal("a\x1b[2Jb\n")   // "a\uFFFD[2Jb\n"
//
// Thread rule: pure functions, any thread. Every text here is valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dllm::cli {

/// U+FFFD, which stands where a character must not.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Length in bytes of the character that starts with `lead`.
std::size_t character_bytes(unsigned char lead);
/// The code point of one whole character.
char32_t decode_character(std::string_view character);
/// Control characters (C0, C1, DEL) and overrides of the writing direction (Unicode UAX #9).
bool steers_terminal(char32_t point);

/// The text with U+FFFD for each character that steers a terminal, but for line feed and tab.
std::string harmless_on_terminal(std::string_view text);

}  // namespace dllm::cli

// The byte alphabet of byte-level BPE: each byte is written as one printable character.
//
// Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for the code point of equal value; the other 68,
// in increasing order, for U+0100 ... U+0143 (GPT-2 `encoder.py`, `bytes_to_unicode`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::tokenizing {

/// The byte that `code_point` stands for, or -1.
int byte_of_code_point(std::uint32_t code_point);

/// Replaces the characters of the byte alphabet in a token's text by their bytes and keeps anything
/// else as it is. Returns whether every character was of the alphabet.
bool bytes_of_token_text(std::string_view text, std::string& bytes);

}  // namespace dllm::tokenizing

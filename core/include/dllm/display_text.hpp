// Text that is valid UTF-8 at every moment, from tokens that become final out of order.
//
//   display_text(tokenizer, ids, known, "_")   // canvas with one placeholder per masked position
//   final_text(tokenizer, ids)                 // answer; bytes that are no UTF-8 become U+FFFD
//
// Thread rule: pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dllm/tokenizer.hpp"

namespace dllm {

/// `known[i]` is 0 where position i is still masked. A masked position shows one placeholder; a run
/// of known tokens whose bytes at its edges are parts of a character shows one placeholder per such
/// incomplete character. Control tokens show nothing.
std::string display_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                         std::span<const std::uint8_t> known, std::string_view placeholder);

/// The decoded ids with every maximal ill-formed part replaced by U+FFFD (Unicode 15, section 3.9,
/// as Python's errors="replace" does).
std::string final_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

/// Replaces ill-formed UTF-8 in `bytes` the same way.
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace dllm

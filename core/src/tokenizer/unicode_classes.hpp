// Character classes of pre-tokenizer patterns, fixed to Unicode 15.0 whatever PCRE2 knows.
#pragma once

#include <string>
#include <string_view>

namespace dllm::tokenizing {

/// Rewrites `\s`, `\S`, `\p{L}`, `\p{N}` and `\p{P}` of a pattern, inside and outside of [...], so
/// that PCRE2 10.40 and newer (Unicode 14 and newer) agree with Unicode 15.0.
std::string with_unicode_15_classes(std::string_view pattern);

}  // namespace dllm::tokenizing

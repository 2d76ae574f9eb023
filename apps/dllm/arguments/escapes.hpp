// Escapes in text typed on the command line, as llama.cpp users know them.
//
//   unescape("a\\nb")   // a, newline, b
//
// Thread rule: pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

namespace dllm::cli {

/// \n \r \t \' \" \\ and \xHH (one or two digits; any byte, 00 included) become what they name;
/// every other backslash stays as it is.
std::string unescape(std::string_view text);

}  // namespace dllm::cli

// Prompt and system text: from the command line, a file or standard input.
//
// From a file or standard input: a UTF-8 byte order mark at the start and one newline (\n or \r\n)
// at the end are dropped, every other byte is kept. Escapes are read in typed text only. Thread
// rule: one thread (reads standard input).
#pragma once

#include <optional>
#include <string>

#include "arguments/settings.hpp"
#include "output/console.hpp"

namespace dllm::cli {

/// Reads a file, or standard input for "-". `option` is named in messages. Throws Error (bad_usage)
/// for a missing or unreadable file and for a directory.
std::string read_text_file(const std::string& path, const std::string& option);

/// -p, -f, or what is piped in where neither is given. Throws Error (bad_usage) where there is
/// none.
std::string read_prompt(const Settings& settings, Console& console);
std::optional<std::string> read_system(const Settings& settings);

/// The newline and byte order mark rule; throws Error (bad_usage) for UTF-16, naming `place`.
std::string clean_file_text(std::string text, const std::string& place);

}  // namespace dllm::cli

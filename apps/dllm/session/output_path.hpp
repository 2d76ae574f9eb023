// What a run writes beside its answer must not fall on what it reads, nor into the answer.
#pragma once

#include <string>

#include "arguments/settings.hpp"

namespace dllm::cli {

/// Refuses a `path` to write to (Error bad_usage naming `option`, the name in the option table)
/// that is the model, another GGUF file, a program or plugin, the prompt, the system message, a
/// config file, or where standard output goes. Links are followed; a path where nothing is yet
/// passes.
void check_output_path(const Settings& settings, const std::string& path,
                       const std::string& option);

/// Whether two paths to write to, neither empty, are one file, however they are spelt: links, dots,
/// files that do not exist yet. /dev/null twice counts too: it is refused with the rest.
bool is_same_output(const std::string& a, const std::string& b);

}  // namespace dllm::cli

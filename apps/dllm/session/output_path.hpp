// What a run writes beside its answer must not fall on what it reads, nor into the answer.
#pragma once

#include <string>

#include "arguments/settings.hpp"

namespace dllm::cli {

/// Refuses a `path` to write to (Error bad_usage naming `option`, the name in the option table)
/// that is the model, another GGUF file, the prompt, the system message, a config file, or where
/// standard output goes. Links are followed; a path where nothing is yet passes.
void check_output_path(const Settings& settings, const std::string& path,
                       const std::string& option);

}  // namespace dllm::cli

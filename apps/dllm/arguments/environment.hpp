// Options from the environment: DLLM_ and the long name, DLLM_BLOCK_LENGTH for --block-length.
// An empty variable counts as not set. Thread rule: reads the environment; one thread.
#pragma once

#include <string>
#include <vector>

#include "arguments/settings.hpp"

namespace dllm::cli {

struct EnvironmentOptions {
  std::vector<Assignment> assignments;
  std::string config;                 ///< DLLM_CONFIG: taken where no --config is given
  std::vector<std::string> warnings;  ///< variables that look like a misspelt option
};

/// Throws Error (bad_usage) naming the variable of a bad value. Other programs' and other parts'
/// variables (DLLM_PLUGIN_PATH) are left alone.
EnvironmentOptions read_environment(const char* const* environment);

}  // namespace dllm::cli

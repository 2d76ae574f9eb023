// All sources of settings in their order of precedence: command line, environment, --config files
// (later wins), the user's file, defaults.
//
//   LoadedSettings loaded = load_settings(kRun, arguments, environ);
//
// Thread rule: one thread (reads the environment and files).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "arguments/settings.hpp"

namespace dllm::cli {

struct LoadedSettings {
  Settings settings;
  std::vector<std::string> warnings;  ///< to be shown on standard error
};

/// Throws Error (bad_usage) for everything that can be found wrong without plugins or the model.
LoadedSettings load_settings(Command command, const std::vector<std::string>& arguments,
                             const char* const* environment);

/// $XDG_CONFIG_HOME/dllm/config.cfg or ~/.config/dllm/config.cfg, where that file exists.
std::optional<std::filesystem::path> user_config_file(const char* const* environment);

}  // namespace dllm::cli

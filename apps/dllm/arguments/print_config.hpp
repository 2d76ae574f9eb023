// --print-config: every value with its origin, as a config file that reproduces the run.
#pragma once

#include <string>
#include <vector>

#include "arguments/settings.hpp"

namespace dllm::cli {

/// One option of the chosen sampler or backend as it stands.
struct PluginValue {
  std::string name;
  std::string value;
  std::string origin;  ///< "default", "preset", or spelling and place
};

struct PrintedPlugins {
  std::vector<PluginValue> sampler;
  std::vector<PluginValue> backend;
};

/// The options of `command`, each `key = value  # origin`; paths absolute, so the file may lie
/// anywhere.
std::string print_config(Command command, const Settings& settings, const PrintedPlugins& plugins);

}  // namespace dllm::cli

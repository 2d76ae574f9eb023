// The Runtime of one command: plugins from --plugin-dir first, log lines to the console.
#pragma once

#include <memory>

#include "arguments/settings.hpp"
#include "dllm/runtime.hpp"
#include "output/console.hpp"

namespace dllm::cli {

inline std::unique_ptr<Runtime> make_runtime(const Settings& settings, Console& console) {
  RuntimeOptions options;
  options.sink = console.log_sink();
  for (const std::string& folder : settings.list("plugin-dir")) {
    options.plugin_folders.emplace_back(folder);
  }
  return std::make_unique<Runtime>(std::move(options));
}

}  // namespace dllm::cli

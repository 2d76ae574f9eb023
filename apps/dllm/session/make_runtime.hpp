// The Runtime of one command: plugins from --plugin-dir first, log lines to the console.
#pragma once

#include <filesystem>
#include <memory>

#include "arguments/settings.hpp"
#include "dllm/error.hpp"
#include "dllm/runtime.hpp"
#include "output/console.hpp"

namespace dllm::cli {

inline std::unique_ptr<Runtime> make_runtime(const Settings& settings, Console& console) {
  RuntimeOptions options;
  options.sink = console.log_sink();
  for (const std::string& folder : settings.list("plugin-dir")) {
    std::error_code status;
    if (!std::filesystem::is_directory(folder, status)) {  // said here, with where it was given
      throw Error(ErrorCode::bad_usage, "plugin folder '" + folder + "' is no folder that exists",
                  settings.origin("plugin-dir"),
                  "give the folder that holds the plugin's .so file");
    }
    options.plugin_folders.emplace_back(folder);
  }
  return std::make_unique<Runtime>(std::move(options));
}

}  // namespace dllm::cli

// The Runtime of one command: plugins from --plugin-dir first, log lines to the console. A folder
// of DLLM_PLUGIN_PATH that is none is a warning, since the variable may serve many machines.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "arguments/settings.hpp"
#include "dllm/error.hpp"
#include "dllm/runtime.hpp"
#include "output/console.hpp"

namespace dllm::cli {

inline void warn_of_missing_folders(const char* plugin_path, Console& console) {
  std::istringstream folders(plugin_path == nullptr ? "" : plugin_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code status;
    if (folder.empty() || std::filesystem::is_directory(folder, status)) continue;
    console.warning("plugin folder '" + folder + "' is no folder that exists (DLLM_PLUGIN_PATH)");
  }
}

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
  warn_of_missing_folders(std::getenv("DLLM_PLUGIN_PATH"), console);
  return std::make_unique<Runtime>(std::move(options));
}

}  // namespace dllm::cli

// Runtime: what one process (or one test) shares: log sink and plugin registry. No globals.
//
//   Runtime runtime({.sink = print_to_stderr, .plugin_folders = {"/extra"}});
//   const auto& cpu = runtime.plugins().choose_backend("auto");
//
// Thread rule: construct on one thread; const calls from any.
#pragma once

#include <filesystem>
#include <vector>

#include "dllm/log.hpp"
#include "dllm/plugin.hpp"

namespace dllm {

struct RuntimeOptions {
  LogSink sink;
  std::vector<std::filesystem::path> plugin_folders;  ///< searched first
};

class Runtime {
 public:
  explicit Runtime(RuntimeOptions options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  const Log& log() const noexcept { return log_; }
  const PluginRegistry& plugins() const noexcept { return plugins_; }

 private:
  Log log_;
  PluginRegistry plugins_;
};

/// "0.1.0", the version of this library.
const char* version() noexcept;

}  // namespace dllm

// A temporary folder of plugin files, scanned by a registry of its own whose log is kept.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/plugin.hpp"
#include "temporary_files.hpp"

namespace dllm::test {

inline const std::filesystem::path kTestPlugins = DLLM_BROKEN_PLUGINS;

struct LogLine {
  LogLevel level;
  std::string component;
  std::string message;
};

class PluginFolder {
 public:
  /// Copies a test plugin (by its stem) into the folder as `name`.
  std::filesystem::path add(const std::string& plugin, const std::string& name) {
    std::filesystem::path to = folder_.path() / name;
    std::filesystem::copy_file(kTestPlugins / (plugin + ".so"), to);
    return to;
  }
  std::filesystem::path add(const std::string& plugin) { return add(plugin, plugin + ".so"); }

  const std::filesystem::path& path() const { return folder_.path(); }
  const std::vector<LogLine>& log() const { return *lines_; }

  /// Scans the folder with a new registry.
  PluginRegistry& scan() {
    registry_ = std::make_unique<PluginRegistry>(log_);
    const std::vector<std::filesystem::path> folders = {folder_.path()};
    registry_->scan(folders);
    return *registry_;
  }
  void end_registry() { registry_.reset(); }

 private:
  TemporaryDirectory folder_;
  std::shared_ptr<std::vector<LogLine>> lines_ = std::make_shared<std::vector<LogLine>>();
  Log log_{[lines = lines_](LogLevel level, std::string_view component, std::string_view message) {
    lines->push_back({level, std::string(component), std::string(message)});
  }};
  std::unique_ptr<PluginRegistry> registry_;
};

}  // namespace dllm::test

// A temporary folder of plugin files, scanned by a registry of its own whose log is kept.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/plugin.hpp"

namespace dllm::test {

inline const std::filesystem::path kTestPlugins = DLLM_BROKEN_PLUGINS;

/// An empty folder that goes with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dllm-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("mkdtemp failed: " + pattern);
    path_ = std::filesystem::canonical(pattern);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

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
  TemporaryFolder folder_;
  std::shared_ptr<std::vector<LogLine>> lines_ = std::make_shared<std::vector<LogLine>>();
  Log log_{[lines = lines_](LogLevel level, std::string_view component, std::string_view message) {
    lines->push_back({level, std::string(component), std::string(message)});
  }};
  std::unique_ptr<PluginRegistry> registry_;
};

}  // namespace dllm::test

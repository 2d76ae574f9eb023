#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "dllm/error.hpp"
#include "dllm/plugin.hpp"

namespace dllm {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Absolute, so that a message means the same wherever it is read. Each folder once.
void add(std::vector<fs::path>& folders, const fs::path& folder) {
  std::error_code code;
  fs::path full = fs::absolute(folder, code).lexically_normal();
  if (code) full = folder;
  const auto same = [&](const fs::path& known) {
    std::error_code ignored;
    return known == full || fs::equivalent(known, full, ignored);
  };
  if (std::ranges::none_of(folders, same)) folders.push_back(std::move(full));
}

void add_if_there(std::vector<fs::path>& folders, const fs::path& folder) {
  if (is_folder(folder)) add(folders, folder);
}

void add_environment(std::vector<fs::path>& folders) {
  const char* const text = std::getenv("DLLM_PLUGIN_PATH");
  if (text == nullptr) return;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::string_view part = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    // In PATH an empty part means the current directory; that is never searched.
    if (!part.empty()) add_if_there(folders, fs::path(part));
  }
}

// The folder of the file this code was loaded from: build tree or installation, wherever it was
// moved.
fs::path library_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&default_plugin_folders), &info) == 0) return {};
  std::error_code code;
  const fs::path real = fs::canonical(info.dli_fname, code);
  return code ? fs::path() : real.parent_path();
}

}  // namespace

std::vector<fs::path> default_plugin_folders(std::span<const fs::path> extra) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : extra) {
    if (!is_folder(folder)) {
      throw Error(ErrorCode::bad_usage,
                  fmt::format("plugin folder '{}' is no folder that exists", folder.string()),
                  "--plugin-dir", "give the folder that holds the plugin's .so file");
    }
    add(folders, folder);
  }
  add_environment(folders);
  if (const fs::path folder = library_folder(); !folder.empty()) {
    add_if_there(folders, folder / "dllm" / "plugins");
  }
  if (const fs::path folder = user_plugin_folder(); !folder.empty()) add_if_there(folders, folder);
  return folders;
}

fs::path user_plugin_folder() {
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".local" / "lib" / "dllm" / "plugins";
}

}  // namespace dllm

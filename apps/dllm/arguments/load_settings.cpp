#include "arguments/load_settings.hpp"

#include <algorithm>

#include "arguments/command_line.hpp"
#include "arguments/config_file.hpp"
#include "arguments/environment.hpp"

namespace dllm::cli {
namespace {

std::string variable(const char* const* environment, std::string_view name) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return std::string(entry.substr(name.size() + 1));
    }
  }
  return {};
}

std::vector<std::string> config_files(const Settings& settings, const std::string& from_variable) {
  std::vector<std::string> files = settings.list("config");
  if (files.empty() && !from_variable.empty()) files.push_back(from_variable);
  return files;
}

}  // namespace

std::optional<std::filesystem::path> user_config_file(const char* const* environment) {
  std::filesystem::path folder = variable(environment, "XDG_CONFIG_HOME");
  if (!folder.is_absolute()) {  // the XDG rule: relative ones are to be ignored
    const std::filesystem::path home = variable(environment, "HOME");
    if (home.empty()) return std::nullopt;
    folder = home / ".config";
  }
  std::filesystem::path file = folder / "dllm" / "config.cfg";
  std::error_code status;
  if (!std::filesystem::exists(file, status)) return std::nullopt;
  return file;
}

LoadedSettings load_settings(Command command, const std::vector<std::string>& arguments,
                             const char* const* environment) {
  LoadedSettings loaded;
  loaded.settings.merge(parse_command_line(command, arguments));
  // A broken config file must not keep anyone from the help.
  if (loaded.settings.flag("help") || loaded.settings.flag("version")) return loaded;
  const EnvironmentOptions variables = read_environment(environment);
  loaded.settings.merge(variables.assignments);
  loaded.warnings = variables.warnings;
  std::vector<std::string> files = config_files(loaded.settings, variables.config);
  std::ranges::reverse(files);
  for (const std::string& file : files) loaded.settings.merge(read_config(file));
  if (const auto file = user_config_file(environment)) loaded.settings.merge(read_config(*file));
  return loaded;
}

}  // namespace dllm::cli

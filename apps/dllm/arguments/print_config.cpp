#include "arguments/print_config.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "arguments/config_file.hpp"
#include "dllm/display_text.hpp"

namespace dllm::cli {
namespace {

// An origin becomes a comment: it must not end the line.
std::string comment(std::string_view origin) {
  std::string text = replace_invalid_utf8(origin);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

std::string config_line(std::string_view key, std::string_view value, std::string_view origin) {
  return fmt::format("{:<40}  # {}\n", fmt::format("{} = {}", key, config_value(value)),
                     comment(origin));
}

// As it is where the working folder is gone.
std::string absolute_path(const std::string& path) {
  std::error_code code;
  const std::filesystem::path whole = std::filesystem::absolute(path, code);
  return path == "-" || code ? path : whole.lexically_normal().string();
}

std::string option_lines(const OptionSpec& spec, const Settings& settings) {
  const Setting* setting = settings.find(spec.key());
  if (setting == nullptr) {
    return spec.default_value.empty() ? fmt::format("# {} is not set\n", spec.name)
                                      : config_line(spec.name, spec.default_value, "default");
  }
  std::string lines;
  for (const std::string& value : setting->values) {
    lines += config_line(spec.name, spec.is_path ? absolute_path(value) : value, setting->origin());
  }
  return lines;
}

std::string section(std::string_view name, const std::vector<PluginValue>& values) {
  if (values.empty()) return {};
  std::string lines = fmt::format("\n[{}]\n", name);
  for (const PluginValue& value : values) {
    lines += config_line(value.name, value.value, value.origin);
  }
  return lines;
}

}  // namespace

std::string print_config(Command command, const Settings& settings, const PrintedPlugins& plugins) {
  std::string text = fmt::format("# dllm {} --config THIS_FILE\n", command_info(command).name);
  for (const OptionSpec& spec : option_table()) {
    const bool printed =
        (spec.commands & command) != 0 && !spec.command_line_only && spec.owner == Owner::own;
    if (printed) text += option_lines(spec, settings);
  }
  return text + section("sampler", plugins.sampler) + section("backend", plugins.backend);
}

}  // namespace dllm::cli

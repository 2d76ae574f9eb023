#include "arguments/help.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dllm::cli {
namespace {

constexpr std::size_t kHelpColumn = 36;

// "-n, --predict N": short spellings first, then the long name.
std::string option_head(const OptionSpec& spec) {
  std::string head;
  for (const std::string_view word : split_words(spec.spellings)) {
    if (!word.starts_with("--")) head += fmt::format("{}, ", word);
  }
  const bool on_by_default = spec.is_flag() && spec.default_value == "true";
  head += fmt::format("--{}{}", on_by_default ? "[no-]" : "", spec.name);
  for (const std::string_view word : split_words(spec.spellings)) {
    // llama.cpp's --diffusion-* aliases are in docs/cli.md; they would only repeat each line.
    if (word.starts_with("--") && !word.starts_with("--diffusion-"))
      head += fmt::format(", {}", word);
  }
  if (!spec.is_flag()) head += fmt::format(" {}", spec.value_name);
  return head;
}

std::string option_text(const OptionSpec& spec) {
  std::string text(spec.help);
  if (!spec.is_flag() && !spec.default_value.empty()) {
    text += fmt::format(" (default {})", spec.default_value);
  }
  return text;
}

// Head and text side by side; a long head takes a line of its own.
std::string option_line(const OptionSpec& spec) {
  std::string line = "  " + option_head(spec);
  if (line.size() + 2 > kHelpColumn) line += "\n" + std::string(kHelpColumn, ' ');
  const std::size_t begin = line.rfind('\n') == std::string::npos ? 0 : line.rfind('\n') + 1;
  line.resize(std::max(line.size(), begin + kHelpColumn), ' ');
  return line + option_text(spec) + "\n";
}

std::string group_lines(Group group, Command command) {
  std::string lines;
  for (const OptionSpec& spec : option_table()) {
    // Accepted for llama.cpp's sake, without a use of its own.
    if (spec.name.starts_with("diffusion-")) continue;
    if (spec.group == group && (spec.commands & command) != 0) lines += option_line(spec);
  }
  return lines.empty() ? lines : fmt::format("{}:\n{}", group_title(group), lines);
}

}  // namespace

std::string general_help() {
  std::string text =
      "dllm runs masked diffusion language models (LLaDA, Dream) from GGUF files.\n\nCommands:\n";
  for (const CommandInfo& info : command_table()) {
    text += fmt::format("  {:<13} {}\n", info.name, info.summary);
  }
  return text +
         "\n`dllm COMMAND --help` lists a command's options; `dllm --version` and\n"
         "`dllm --list-devices` work without a command. docs/cli.md has everything.\n";
}

std::string command_help(Command command) {
  const CommandInfo& info = command_info(command);
  std::string text = fmt::format("{}\n  {}\n", info.usage, info.summary);
  for (const Group group :
       {Group::model, Group::prompt, Group::generation, Group::bench, Group::decoding,
        Group::output, Group::work, Group::plugins, Group::settings}) {
    text += group_lines(group, command);
  }
  return text;
}

}  // namespace dllm::cli

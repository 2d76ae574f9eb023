#include "arguments/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace dllm::cli {
namespace {

constexpr std::string_view kPrefix = "DLLM_";

// Read by other parts of dllm, so never a misspelt option.
constexpr std::array<std::string_view, 2> kOtherVariables{"DLLM_PLUGIN_PATH", "DLLM_CPU_ISA"};

std::string spelling_of(std::string_view variable) {
  std::string spelling = "--";
  for (const char c : variable.substr(kPrefix.size())) {
    spelling += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return spelling;
}

std::string variable_of(std::string_view spelling) {
  std::string variable(kPrefix);
  for (const char c : spelling.substr(2)) {
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return variable;
}

void warn_unknown(const std::string& variable, EnvironmentOptions& options) {
  if (std::ranges::find(kOtherVariables, variable) != kOtherVariables.end()) return;
  const std::string near = nearest_match(spelling_of(variable), all_spellings(kAllCommands));
  const bool known = near.starts_with("--");
  options.warnings.push_back(
      fmt::format("{} names no option and is not used{}", variable,
                  known ? fmt::format("; did you mean {}?", variable_of(near)) : ""));
}

void read_variable(const std::string& variable, std::string_view value,
                   EnvironmentOptions& options) {
  const auto found = find_spelling(spelling_of(variable));
  if (!found) return warn_unknown(variable, options);
  const OptionSpec& spec = *found->spec;
  if (spec.name == "config") {
    options.config = std::string(value);
  } else if (spec.command_line_only) {
    options.warnings.push_back(
        fmt::format("{} is not used; give --{} on the command line", variable, spec.name));
  } else {
    Assignment made = make_assignment(spec, value, variable, "environment");
    if (found->negated) made.value = made.value == "true" ? "false" : "true";
    options.assignments.push_back(std::move(made));
  }
}

}  // namespace

EnvironmentOptions read_environment(const char* const* environment) {
  EnvironmentOptions options;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view value = entry.substr(equals + 1);
    if (!value.empty()) read_variable(std::string(entry.substr(0, equals)), value, options);
  }
  return options;
}

}  // namespace dllm::cli

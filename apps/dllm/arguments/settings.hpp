// What the user asked for, with where each value came from.
//
//   Settings settings;
//   settings.merge(command_line);      // sources in order of precedence: the first to give a
//   settings.merge(environment);       // value wins
//   settings.integer("predict");
//
// Thread rule: a value; one thread while merging.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/option_table.hpp"

namespace dllm::cli {

/// Assignment::place of what was typed.
inline constexpr std::string_view kCommandLine = "command line";

/// One value as a source gave it, checked against the option table.
struct Assignment {
  std::string key;      ///< OptionSpec::key(), or "sampler.NAME", "backend.NAME"
  std::string value;    ///< flags: "true" or "false"
  std::string spelled;  ///< as the user wrote the name: "--temp", "top_k", "DLLM_STEPS"
  std::string place;    ///< "command line", "environment", "runs/haiku.cfg:3"
  const OptionSpec* sugar = nullptr;  ///< the short form of a plugin's option: "--steps", "-t"
};

struct Setting {
  std::vector<std::string> values;  ///< more than one where the option repeats
  std::string spelled;
  std::string place;
  const OptionSpec* sugar = nullptr;  ///< as in Assignment

  /// For messages: "--steps, command line".
  std::string origin() const;
};

/// Makes the assignment for `spec`: checks the value (throws Error bad_usage that names option,
/// value, what is allowed and `place`), turns flags into true or false and paths into ones from
/// `base`.
Assignment make_assignment(const OptionSpec& spec, std::string_view value, std::string_view spelled,
                           std::string_view place, const std::filesystem::path& base = {});

/// "NAME=VALUE" of --set and --backend-set, or an entry of a section, for the plugin's own check.
Assignment make_plugin_assignment(Owner owner, std::string_view name, std::string_view value,
                                  std::string_view spelled, std::string_view place);

class Settings {
 public:
  /// Takes from one source what no earlier source gave. Throws Error (bad_usage) when the source
  /// gives an option twice, or two options that exclude each other.
  void merge(const std::vector<Assignment>& source);

  /// Puts a value in place of what is there; for values found out later (a drawn seed).
  void replace(std::string_view key, std::string value, std::string_view place);

  const Setting* find(std::string_view key) const;
  /// Where a value came from (Setting::origin); empty for a default.
  std::string origin(std::string_view key) const;

  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;  ///< given or default; one of both must be
  std::optional<std::int64_t> find_integer(std::string_view name) const;
  std::string text(std::string_view name) const;  ///< empty where neither given nor default
  std::vector<std::string> list(std::string_view name) const;

  /// Options of the sampler or the backend: name without the prefix, and setting.
  std::map<std::string, Setting, std::less<>> plugin_options(Owner owner) const;

 private:
  std::map<std::string, Setting, std::less<>> values_;
};

}  // namespace dllm::cli

// Every option of the command line, once: its spellings, what it takes, what is allowed, its help.
//
//   const auto found = find_spelling("--n_predict");   // -> predict
//
// The parser, the config reader, the environment, --print-config and --help all read this table.
// Thread rule: constant data, any thread.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dllm/options.hpp"

namespace dllm::cli {

/// Bits, so that an option can belong to several.
enum Command : unsigned {
  kRun = 1u << 0,
  kTokenize = 1u << 1,
  kInspect = 1u << 2,
  kLogits = 1u << 3,
  kPlugins = 1u << 4,
  kNewSampler = 1u << 5,
  kCheckPlugin = 1u << 6,
  kBench = 1u << 7,
  kReplay = 1u << 8,
  kAllCommands = (1u << 9) - 1
};

struct CommandInfo {
  Command command;
  std::string_view name;
  std::string_view usage;
  std::string_view summary;
  std::string_view plain{};  ///< the option an argument without dashes means; empty: none is taken
};
std::span<const CommandInfo> command_table();
const CommandInfo* find_command(std::string_view name);
const CommandInfo& command_info(Command command);

/// Headings of the help, in this order.
enum class Group { model, prompt, generation, bench, decoding, output, work, plugins, settings };
std::string_view group_title(Group group);

/// Whose option it is: the command line's own, or sugar for one of the chosen sampler or backend.
enum class Owner { own, sampler, backend };

struct OptionSpec {
  std::string_view name{};        ///< long name without dashes: the key in files and variables
  std::string_view spellings{};   ///< all others, separated by a space: "-n --n-predict"
  std::string_view value_name{};  ///< empty: a flag, on or off
  std::string_view help{};
  Group group = Group::settings;
  unsigned commands = kAllCommands;
  OptionType type = OptionType::text;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_exclusive = false;
  std::string_view choices{};        ///< separated by a space
  std::string_view default_value{};  ///< empty: not set
  Owner owner = Owner::own;
  bool repeatable = false;
  bool is_path = false;             ///< relative paths in a config file start at the file
  bool command_line_only = false;   ///< neither in files nor in the environment
  std::string_view alternatives{};  ///< options with the same word exclude each other

  bool is_flag() const { return value_name.empty(); }
  /// What settings store it under: "steps" of the sampler is "sampler.steps".
  std::string key() const;
  /// The facts parse_option checks a value against; `spelled` is the name in messages.
  OptionInfo info(std::string_view spelled) const;
};

std::span<const OptionSpec> option_table();
/// By `name`; null where there is none.
const OptionSpec* find_option(std::string_view name);

struct Spelling {
  const OptionSpec* spec = nullptr;
  bool negated = false;  ///< "--no-chat"
};
/// A spelling with its dashes, as typed; `_` equals `-` in long names.
std::optional<Spelling> find_spelling(std::string_view typed);

/// All spellings a misspelt option is compared with; those of `commands` only.
std::vector<std::string> all_spellings(unsigned commands);

/// The words of a list separated by single spaces.
std::vector<std::string_view> split_words(std::string_view list);

}  // namespace dllm::cli

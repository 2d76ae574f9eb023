#include "arguments/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

namespace po = boost::program_options;

[[noreturn]] void refuse(std::string fact, std::string fix) {
  throw Error(ErrorCode::bad_usage, std::move(fact), std::string(kCommandLine), std::move(fix));
}

std::string help_hint(Command command) {
  return fmt::format("`dllm {} --help` lists the options", command_info(command).name);
}

// What users of llama.cpp reach for, and what there is instead; empty for anything else.
std::string_view advice_for_foreign(std::string_view typed) {
  struct Foreign {
    std::string_view spellings;
    std::string_view advice;
  };
  static constexpr std::array kForeign = std::to_array<Foreign>({
      {"-c --ctx-size", "leave it out: the canvas is the prompt and -n"},
      {"-b --batch-size -ub --ubatch-size", "leave it out: every step takes the whole canvas"},
      {"-ngl --gpu-layers --n-gpu-layers",
       "leave it out: --backend says whether a GPU is used, then for all layers"},
  });
  for (const Foreign& foreign : kForeign) {
    const auto words = split_words(foreign.spellings);
    if (std::ranges::find(words, typed) != words.end()) return foreign.advice;
  }
  return {};
}

std::string without_dashes(std::string_view typed) {
  typed.remove_prefix(std::min(typed.find_first_not_of('-'), typed.size()));
  return std::string(typed);
}

// Dashes are no letters: "-c" is not near to "-m", and "-steps" is "--steps".
std::string nearest_spelling(Command command, const std::string& typed) {
  const std::vector<std::string> spellings = all_spellings(command);
  std::vector<std::string> names(spellings.size());
  std::ranges::transform(spellings, names.begin(), without_dashes);
  const std::string near = nearest_match(without_dashes(typed), names);
  const auto at = std::ranges::find(names, near);
  return at == names.end() ? "" : spellings[static_cast<std::size_t>(at - names.begin())];
}

// "-n128": a one-letter option with its value attached; empty where it is none.
std::string with_value_apart(const std::string& typed) {
  if (typed.size() < 3 || typed.starts_with("--") || !find_spelling(typed.substr(0, 2))) return {};
  return fmt::format("{} {}", typed.substr(0, 2), typed.substr(2));
}

[[noreturn]] void refuse_unknown(Command command, const std::string& typed) {
  const std::string fact = fmt::format("unknown option '{}'", typed);
  if (const auto advice = advice_for_foreign(typed); !advice.empty()) {
    refuse(fact, std::string(advice));
  }
  const bool number_behind = typed.size() > 2 && typed[2] >= '0' && typed[2] <= '9';
  std::string near = number_behind ? with_value_apart(typed) : "";
  if (near.empty()) near = nearest_spelling(command, typed);
  if (near.empty()) near = with_value_apart(typed);
  refuse(fact, near.empty() ? help_hint(command)
                            : fmt::format("did you mean '{}'? {}", near, help_hint(command)));
}

void check_command(Command command, const OptionSpec& spec, const std::string& typed) {
  if ((spec.commands & command) != 0) return;
  std::string others;
  for (const CommandInfo& other : command_table()) {
    if ((spec.commands & other.command) == 0) continue;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", other.name);
  }
  refuse(fmt::format("option {} is not for `dllm {}`", typed, command_info(command).name),
         fmt::format("it belongs to: {}; {}", others, help_hint(command)));
}

// Reads the arguments one by one; a cursor over them.
class Rewriter {
 public:
  Rewriter(Command command, const std::vector<std::string>& arguments)
      : command_(command), arguments_(arguments) {}

  std::vector<RewrittenOption> rewrite() {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_++];
      if (!only_plain_ && argument == "--") {
        only_plain_ = true;
      } else if (!only_plain_ && argument.size() > 1 && argument.front() == '-') {
        rewrite_option(argument);
      } else {
        rewrite_plain(argument);
      }
    }
    return std::move(options_);
  }

 private:
  void rewrite_option(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    const std::string typed = argument.substr(0, equals);
    const auto found = find_spelling(typed);
    if (!found) refuse_unknown(command_, typed);
    const OptionSpec& spec = *found->spec;
    check_command(command_, spec, typed);
    if (spec.is_flag()) {
      options_.push_back({std::string(spec.name), flag_value(*found, argument, equals), typed});
    } else {
      const std::string value =
          equals == std::string::npos ? next_value(spec, typed) : argument.substr(equals + 1);
      options_.push_back({std::string(spec.name), value, typed});
    }
  }

  static std::string flag_value(const Spelling& found, const std::string& argument,
                                std::size_t equals) {
    if (equals == std::string::npos) return found.negated ? "false" : "true";
    const std::string typed = argument.substr(0, equals);
    const bool on =
        parse_option(found.spec->info(typed), argument.substr(equals + 1), kCommandLine).integer !=
        0;
    return on != found.negated ? "true" : "false";
  }

  // The next argument, unless it is itself an option: "-n --steps 4" lacks a value, "-s -1" not.
  std::string next_value(const OptionSpec& spec, const std::string& typed) {
    if (next_ >= arguments_.size()) {
      refuse(fmt::format("option {} lacks its value", typed),
             fmt::format("write {} {}", typed, spec.value_name));
    }
    const std::string& value = arguments_[next_];
    const std::string name = value.substr(0, value.find('='));
    if (name.size() > 1 && name.front() == '-' && find_spelling(name)) {
      refuse(fmt::format("option {} lacks its value: '{}' follows, itself an option", typed, value),
             fmt::format("write {} {}, or {}={} to give this as the value", typed, spec.value_name,
                         typed, value));
    }
    ++next_;
    return value;
  }

  void rewrite_plain(const std::string& argument) {
    const CommandInfo& info = command_info(command_);
    if (!info.plain.empty()) {  // called as the usage line calls it: "dllm replay TRACE"
      const std::string_view spelled = split_words(info.usage).at(2);
      options_.push_back({std::string(info.plain), argument, std::string(spelled)});
      return;
    }
    const bool prompts = (find_option("prompt")->commands & command_) != 0;
    refuse(fmt::format("unexpected argument '{}'", argument),
           prompts
               ? fmt::format("a prompt goes after -p, a model after -m; {}", help_hint(command_))
               : help_hint(command_));
  }

  Command command_;
  const std::vector<std::string>& arguments_;
  std::size_t next_ = 0;
  bool only_plain_ = false;
  std::vector<RewrittenOption> options_;
};

po::options_description describe_options() {
  po::options_description described;
  for (const OptionSpec& spec : option_table()) {
    described.add_options()(std::string(spec.name).c_str(), po::value<std::vector<std::string>>());
  }
  return described;
}

// "--name=value" for each; an empty value as an argument of its own, for Boost refuses "--name=".
std::vector<po::option> parse_rewritten(const std::vector<RewrittenOption>& rewritten) {
  std::vector<std::string> tokens;
  for (const RewrittenOption& option : rewritten) {
    if (option.value.empty()) {
      tokens.insert(tokens.end(), {"--" + option.name, ""});
    } else {
      tokens.push_back("--" + option.name + "=" + option.value);
    }
  }
  using namespace po::command_line_style;
  const po::options_description described = describe_options();
  return po::command_line_parser(tokens)
      .options(described)
      .style(allow_long | long_allow_adjacent | long_allow_next)
      .run()
      .options;
}

// "--set NAME=VALUE": an option of the sampler, of the backend for --backend-set.
Assignment parse_pair(const RewrittenOption& option) {
  const std::size_t equals = option.value.find('=');
  if (equals == std::string::npos || equals == 0) {
    refuse(fmt::format("option {}: '{}' is not allowed", option.spelled, option.value),
           fmt::format("write {} NAME=VALUE; `dllm plugins` lists the names", option.spelled));
  }
  const std::string name = option.value.substr(0, equals);
  return make_plugin_assignment(option.name == "set" ? Owner::sampler : Owner::backend, name,
                                option.value.substr(equals + 1),
                                fmt::format("{} {}", option.spelled, name), kCommandLine);
}

// Temperature here always draws with Gumbel noise (docs/cli.md), so only "off" cannot be had.
void check_gumbel(const OptionSpec& spec, const RewrittenOption& option) {
  const OptionValue value = parse_option(spec.info(option.spelled), option.value, kCommandLine);
  if (value.number != 0) return;
  refuse(fmt::format("option {}: '{}' cannot be had, temperature always draws with Gumbel noise",
                     option.spelled, option.value),
         "leave it out, or use --temp 0 for no noise at all");
}

}  // namespace

std::vector<RewrittenOption> rewrite_arguments(Command command,
                                               const std::vector<std::string>& arguments) {
  return Rewriter(command, arguments).rewrite();
}

std::vector<Assignment> parse_command_line(Command command,
                                           const std::vector<std::string>& arguments) {
  const std::vector<RewrittenOption> rewritten = rewrite_arguments(command, arguments);
  const std::vector<po::option> parsed = parse_rewritten(rewritten);
  DLLM_ASSERT(parsed.size() == rewritten.size());
  std::vector<Assignment> assignments;
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    const OptionSpec* spec = find_option(parsed[i].string_key);
    DLLM_ASSERT(spec != nullptr && parsed[i].value.size() == 1);
    if (spec->name == "set" || spec->name == "backend-set") {
      assignments.push_back(parse_pair(rewritten[i]));
    } else if (spec->name == "diffusion-add-gumbel-noise") {
      check_gumbel(*spec, rewritten[i]);
    } else {
      assignments.push_back(
          make_assignment(*spec, parsed[i].value.front(), rewritten[i].spelled, kCommandLine));
    }
  }
  return assignments;
}

}  // namespace dllm::cli

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "arguments/help.hpp"
#include "arguments/load_settings.hpp"
#include "commands/commands.hpp"
#include "dllm/runtime.hpp"
#include "session/interrupt.hpp"

namespace dllm::cli {
namespace {

[[noreturn]] void refuse_command(const std::string& word) {
  std::vector<std::string> names;
  for (const CommandInfo& info : command_table()) names.emplace_back(info.name);
  names.insert(names.end(), {"help", "--version"});
  if (word.starts_with('-')) {
    throw Error(ErrorCode::bad_usage, fmt::format("'{}' comes before a command", word),
                "command line", fmt::format("start with a command: dllm run {} ...", word));
  }
  std::string small = word;
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string near = nearest_match(small, names);
  throw Error(ErrorCode::bad_usage, fmt::format("unknown command '{}'", word), "command line",
              near.empty() ? fmt::format("commands are {}", fmt::join(names, ", "))
                           : fmt::format("did you mean '{}'?", near));
}

int show_version() {
  write_answer(fmt::format("dllm {}\n", version()));
  return 0;
}

int call(Command command, const Settings& settings, Console& console) {
  switch (command) {
    case kRun:
      return run_command(settings, console);
    case kTokenize:
      return tokenize_command(settings, console);
    case kInspect:
      return inspect_command(settings, console);
    case kLogits:
      return logits_command(settings, console);
    case kBench:
      return bench_command(settings, console);
    case kPlugins:
      return plugins_command(settings, console);
    case kReplay:
      return replay_command(settings, console);
    case kCheckPlugin:
      return check_plugin_command(settings, console);
    case kNewSampler:
      return new_sampler_command(settings, console);
    case kAllCommands:
      break;
  }
  DLLM_ASSERT(false);
  return 1;
}

int run_one_command(Command command, const std::vector<std::string>& arguments,
                    const char* const* environment) {
  const LoadedSettings loaded = load_settings(command, arguments, environment);
  const Settings& settings = loaded.settings;
  if (settings.flag("help")) {
    write_answer(command_help(command));
    return 0;
  }
  if (settings.flag("version")) return show_version();
  Console console(STDERR_FILENO, settings.flag("verbose"));
  for (const std::string& text : loaded.warnings) console.warning(text);
  check_answer_can_be_written();
  if (settings.flag("print-config")) return print_settings(command, settings, console);
  if (settings.flag("list-devices")) return list_devices(settings, console);
  return call(command, settings, console);
}

// `dllm help`, `dllm help run`.
int show_help(const std::vector<std::string>& words) {
  if (words.size() < 2) {
    write_answer(general_help());
    return 0;
  }
  const CommandInfo* info = find_command(words[1]);
  if (info == nullptr) refuse_command(words[1]);
  write_answer(command_help(info->command));
  return 0;
}

int dispatch(const std::vector<std::string>& arguments, const char* const* environment) {
  if (arguments.empty()) {
    std::fputs(general_help().c_str(), stderr);  // the answer to nothing is none
    return exit_status(ErrorCode::bad_usage);
  }
  const std::string& word = arguments.front();
  if (word == "help" || word == "--help" || word == "-h") return show_help(arguments);
  if (word == "--version") return show_version();
  if (word == "--list-devices") return run_one_command(kRun, arguments, environment);
  const CommandInfo* info = find_command(word);
  if (info == nullptr) refuse_command(word);
  return run_one_command(info->command, {arguments.begin() + 1, arguments.end()}, environment);
}

}  // namespace

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_usage:
      return 2;
    case ErrorCode::interrupted:
      return interrupt_status();
    default:
      return 1;
  }
}

int main_program(const std::vector<std::string>& arguments, const char* const* environment) {
  Console console(STDERR_FILENO, false);
  try {
    return dispatch(arguments, environment);
  } catch (const Error& error) {
    console.error(error.what());
    return exit_status(error.code());
  } catch (const std::bad_alloc&) {
    console.error("out of memory. Fix: use a smaller model, prompt or -n, or a machine with more");
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    const bool no_thread =
        system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
    console.error(
        no_thread ? "the system refuses another thread. Fix: use fewer (-t), or raise the limit "
                    "(ulimit -u and -v, the container's pids)"
                  : fmt::format("internal error: {}. Fix: report this as a bug", error.what()));
  }
  return 1;
}

}  // namespace dllm::cli

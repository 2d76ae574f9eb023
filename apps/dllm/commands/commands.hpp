// The commands of dllm. Each returns the exit status of success (0, or 130 for a run that was
// interrupted and printed what it had) and throws dllm::Error for everything else.
#pragma once

#include <string>
#include <vector>

#include "arguments/settings.hpp"
#include "dllm/error.hpp"
#include "output/console.hpp"

namespace dllm::cli {

int run_command(const Settings& settings, Console& console);
int tokenize_command(const Settings& settings, Console& console);
int inspect_command(const Settings& settings, Console& console);
int logits_command(const Settings& settings, Console& console);
int bench_command(const Settings& settings, Console& console);
int replay_command(const Settings& settings, Console& console);
int plugins_command(const Settings& settings, Console& console);
int check_plugin_command(const Settings& settings, Console& console);
int new_sampler_command(const Settings& settings, Console& console);

int list_devices(const Settings& settings, Console& console);
int print_settings(Command command, const Settings& settings, Console& console);

/// The whole program after argv[0]; prints errors and returns the exit status.
int main_program(const std::vector<std::string>& arguments, const char* const* environment);

/// 0 never; 2 bad usage, 130 interrupted, 1 the rest.
int exit_status(ErrorCode code);

}  // namespace dllm::cli

// --help texts, from the option table.
#pragma once

#include <string>

#include "arguments/option_table.hpp"

namespace dllm::cli {

/// `dllm --help`: the commands.
std::string general_help();
/// `dllm COMMAND --help`: its options by group, in lines of at most 100 columns.
std::string command_help(Command command);

}  // namespace dllm::cli

// From argv to assignments.
//
//   std::vector<Assignment> given = parse_command_line(kRun, {"-sys", "Be brief", "--temp=0"});
//
// argv is first rewritten so that every option is "--long-name=value" in the table's spelling
// (Boost.Program_options alone reads "-sys X" as "-s ys" and completes prefixes); then
// Boost.Program_options parses it, guessing off.
// Thread rule: pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "arguments/settings.hpp"

namespace dllm::cli {

/// One option after rewriting: what Boost.Program_options reads and what the user typed.
struct RewrittenOption {
  std::string name;   ///< table name, "block-length"
  std::string value;  ///< flags: "true" or "false"
  std::string spelled;
};

/// Rewrites the arguments after the command's name. Throws Error (bad_usage) for an unknown option
/// (with the nearest match), one of another command, a missing value, a stray argument.
std::vector<RewrittenOption> rewrite_arguments(Command command,
                                               const std::vector<std::string>& arguments);

/// The whole command line of one command, checked value by value.
std::vector<Assignment> parse_command_line(Command command,
                                           const std::vector<std::string>& arguments);

}  // namespace dllm::cli

// A plugin that calls exit() must not pass for an answer: exit status 0 claims one.
#pragma once

namespace dllm::cli {

/// From now on an exit() before end_is_expected() ends the process with an error and status 1.
/// Called once by main.
void watch_for_foreign_exit();
/// The process may end now, with whatever status.
void end_is_expected();

}  // namespace dllm::cli

// Ctrl-C (SIGINT), SIGTERM and SIGHUP: the first is noted and ends the run after the step in
// flight; the second of a kind ends the process at once. One that was ignored when the program
// started (nohup, a background job) stays ignored. Thread rule: install once from main; the rest
// from any thread.
#pragma once

#include <string>

namespace dllm::cli {

/// To be called once there may be something to finish or to clear away: until then the first
/// signal ends the process at once.
void install_interrupt_handler();
bool interrupted() noexcept;
/// Throws Error (interrupted) for a signal that came `during` ("while loading the model") the
/// command named by `where`: a file or an option.
[[noreturn]] void end_interrupted(const std::string& during, const std::string& where);
/// 128 + the number of the signal that was noted: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
int interrupt_status() noexcept;

}  // namespace dllm::cli

// Ctrl-C (SIGINT), SIGTERM and SIGHUP: the first is noted and ends the run after the step in
// flight; the second of a kind ends the process at once. One that was ignored when the program
// started (nohup, a background job) stays ignored. Thread rule: install once from main; the rest
// from any thread.
#pragma once

namespace dllm::cli {

void install_interrupt_handler();
bool interrupted() noexcept;
/// 128 + the number of the signal that was noted: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
int interrupt_status() noexcept;

}  // namespace dllm::cli

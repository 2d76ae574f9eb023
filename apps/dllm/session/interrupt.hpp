// Ctrl-C: the first is noted and ends the run after the step in flight; the second ends the process
// at once. Thread rule: install once from main; interrupted() from any thread.
#pragma once

namespace dllm::cli {

void install_interrupt_handler();
bool interrupted() noexcept;

}  // namespace dllm::cli

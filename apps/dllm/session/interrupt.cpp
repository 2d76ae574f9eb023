#include "session/interrupt.hpp"

#include <atomic>
#include <csignal>

namespace dllm::cli {
namespace {

// A signal handler can only reach a global; it is written there and nowhere else.
std::atomic<bool> was_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void note_interrupt(int) { was_interrupted = true; }

}  // namespace

void install_interrupt_handler() {
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one finds the default: at once
  ::sigaction(SIGINT, &action, nullptr);
}

bool interrupted() noexcept { return was_interrupted; }

}  // namespace dllm::cli

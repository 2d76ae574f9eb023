#include "session/interrupt.hpp"

#include <atomic>
#include <csignal>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

// A signal handler can only reach a global; it is written there and nowhere else.
std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_interrupt(int signal) { noted_signal = signal; }

}  // namespace

void install_interrupt_handler() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = note_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one finds the default: at once
    ::sigaction(signal, &action, nullptr);
  }
}

bool interrupted() noexcept { return noted_signal != 0; }

void end_interrupted(const std::string& during, const std::string& where) {
  throw Error(ErrorCode::interrupted, "interrupted " + during, where,
              "give the command again for a result");
}

int interrupt_status() noexcept { return 128 + noted_signal; }

}  // namespace dllm::cli

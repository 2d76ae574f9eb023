#include "output/foreign_exit.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace dllm::cli {
namespace {

// A function that exit() calls can only reach a global.
std::atomic<bool> is_expected{false};

void report_foreign_exit() {
  if (is_expected) return;
  constexpr std::string_view kMessage =
      "dllm: error: a plugin ended the process in the middle of its work (exit). Fix: find it with "
      "`dllm check-plugin FILE`, and leave it out\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(1);
}

}  // namespace

void watch_for_foreign_exit() {
  std::atexit(report_foreign_exit);
  std::at_quick_exit(report_foreign_exit);
}

void end_is_expected() { is_expected = true; }

}  // namespace dllm::cli

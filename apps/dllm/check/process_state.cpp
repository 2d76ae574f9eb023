#include "check/process_state.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <locale>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

std::string locale_names() {
  const char* name = std::setlocale(LC_ALL, nullptr);
  return fmt::format("{}, {} in C++", name == nullptr ? "?" : name, std::locale().name());
}

std::string environment() {
  std::string all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    all += fmt::format("{} ", *entry);
  }
  return all;
}

std::string mask_of_files() {  // reading it with umask() would change it for a moment
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Umask:")) return line.substr(7);
  }
  return {};
}

std::string n_threads() {
  std::error_code code;
  std::size_t n = 0;
  for (fs::directory_iterator task("/proc/self/task", code), end; !code && task != end;
       task.increment(code)) {
    ++n;
  }
  return fmt::format("{}", n);
}

std::string alarm_state() {
  itimerval timer{};
  ::getitimer(ITIMER_REAL, &timer);
  return timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0 ? "set" : "not set";
}

std::string blocked_signals() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  std::string names;
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* name = ::sigabbrev_np(signal);
    if (name != nullptr && ::sigismember(&blocked, signal) == 1) names += fmt::format("{} ", name);
  }
  return names.empty() ? "none" : names;
}

std::string handler_of(const struct sigaction& action) {
  if (action.sa_handler == SIG_DFL) return "the default";
  if (action.sa_handler == SIG_IGN) return "ignored";
  return fmt::format("handler {:#x}", reinterpret_cast<std::uintptr_t>(action.sa_handler));
}

// An environment is long, and may hold what is nobody's business.
bool is_shown(const std::string& name) { return name != "the environment"; }

}  // namespace

ProcessState process_state() {
  std::error_code code;
  ProcessState state = {{"the locale", locale_names()},
                        {"the environment", environment()},
                        {"the working folder", fs::current_path(code).string()},
                        {"the umask", mask_of_files()},
                        {"the alarm timer", alarm_state()},
                        {"the blocked signals", blocked_signals()},
                        {"the number of threads", n_threads()}};
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* name = ::sigabbrev_np(signal);
    struct sigaction action{};
    if (name == nullptr || ::sigaction(signal, nullptr, &action) != 0) continue;
    state[fmt::format("what happens on SIG{}", name)] = handler_of(action);
  }
  return state;
}

std::string changed_state(const ProcessState& before, const ProcessState& after) {
  for (const auto& [name, value] : before) {
    const auto now = after.find(name);
    if (now == after.end() || now->second == value) continue;
    return is_shown(name) ? fmt::format("{}, from {} to {}", name, value, now->second) : name;
  }
  return {};
}

CapturedOutput::CapturedOutput()
    : file_(::memfd_create("dllm", MFD_CLOEXEC)),
      standard_output_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
  std::fflush(stdout);
  if (file_ >= 0 && standard_output_ >= 0 && ::dup2(file_, STDOUT_FILENO) >= 0) return;
  const int error = errno;
  for (const int fd : {file_, standard_output_}) {
    if (fd >= 0) ::close(fd);
  }
  throw Error(ErrorCode::resource, fmt::format("no file for the check: {}", std::strerror(error)),
              "dllm check-plugin", "raise the limit on open files (ulimit -n)");
}

CapturedOutput::~CapturedOutput() {
  std::fflush(stdout);
  ::dup2(standard_output_, STDOUT_FILENO);
  ::close(standard_output_);
  ::close(file_);
}

std::string CapturedOutput::text() const {
  std::fflush(stdout);
  std::array<char, 80> start{};
  const ssize_t n = ::pread(file_, start.data(), start.size(), 0);
  return {start.data(), static_cast<std::size_t>(n > 0 ? n : 0)};
}

}  // namespace dllm::cli

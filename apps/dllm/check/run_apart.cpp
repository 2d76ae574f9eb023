#include "check/run_apart.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "dllm/error.hpp"
#include "output/foreign_exit.hpp"

namespace dllm::cli {
namespace {

using Clock = std::chrono::steady_clock;

// First byte of what the child writes: the text that follows is the work's own.
constexpr char kReturned = '=';

void write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void be_the_child(int fd, const std::function<std::string()>& work) {
  end_is_expected();  // the parent tells how this one ended
  std::string text;
  try {
    text = kReturned + work();
  } catch (const std::exception& error) {
    text = error.what();
  }
  write_all(fd, text);
  ::_exit(0);  // not exit(): the parent's buffers and handlers are copied, and are the parent's
}

// All the child writes until it closes the pipe; false where the limit came first.
bool read_until_closed(int fd, Clock::time_point end, std::string& text) {
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) return true;
    if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) return true;
  }
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    return fmt::format("it crashed (SIG{})", name != nullptr ? name : "?");
  }
  return fmt::format("it ended the process (exit status {})", WEXITSTATUS(status));
}

}  // namespace

Apart run_apart(const std::function<std::string()>& work, std::chrono::seconds limit) {
  std::array<int, 2> ends{};
  const pid_t child = ::pipe(ends.data()) == 0 ? ::fork() : -1;
  if (child < 0) {
    throw Error(ErrorCode::resource,
                fmt::format("no child process for the check: {}", std::strerror(errno)),
                "dllm check-plugin", "raise the limit on processes (ulimit -u)");
  }
  if (child == 0) {
    ::close(ends[0]);
    be_the_child(ends[1], work);
  }
  ::close(ends[1]);
  Apart apart;
  std::string text;
  const bool closed = read_until_closed(ends[0], Clock::now() + limit, text);
  ::close(ends[0]);
  if (!closed) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  apart.returned = closed && text.starts_with(kReturned);
  if (apart.returned) {
    apart.text = text.substr(1);
  } else if (!closed) {
    apart.text = fmt::format("no end after {} s", limit.count());
  } else {
    apart.text = text.empty() ? ending(status) : text;
  }
  return apart;
}

}  // namespace dllm::cli

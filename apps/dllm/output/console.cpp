#include "output/console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "dllm/display_text.hpp"
#include "dllm/error.hpp"
#include "output/terminal_text.hpp"

namespace dllm::cli {
namespace {

// Where answers go; prepare_standard_streams() moves it, once, before anything else runs.
int answer_fd = STDOUT_FILENO;

// All bytes, over interruptions and short writes; errno of the first failure, 0 for none.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

[[noreturn]] void refuse_output(int error) {
  throw Error(ErrorCode::resource, fmt::format("cannot write the answer: {}", std::strerror(error)),
              "standard output",
              error == ENOSPC ? "free space where it goes" : "keep the reader of the output open");
}

// Reading a page of a mapped file that is no longer there (it was shortened, its disk or network
// drive is gone) raises SIGBUS; without this the program ends without a word.
void report_lost_file(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR && info->si_code != BUS_OBJERR) {
    std::signal(signal, SIG_DFL);  // something else: end as usual when the instruction is repeated
    return;
  }
  // Several threads may fall over it at once: one of them tells, the others wait for its exit.
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  while (told.test_and_set()) ::pause();
  constexpr std::string_view kMessage =
      "dllm: error: a part of the model file or of a plugin cannot be read any more: it was "
      "shortened, or its drive failed (memory map). Fix: get the file again, and leave it alone "
      "during a run\n";
  // Only calls that are allowed in a signal handler; a message that cannot be written is lost.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(1);  // a failure at run time
}

void watch_for_lost_files() {
  struct sigaction action{};
  action.sa_sigaction = report_lost_file;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

// A message quotes names and values that somebody typed or a file holds, of any length: the middle
// of a long one goes, its start (the fact) and its end (the fix) stay. Cut between characters.
std::string shortened(std::string_view text) {
  constexpr std::size_t kStart = 500;
  constexpr std::size_t kEnd = 700;
  if (text.size() <= kStart + kEnd + 64) return std::string(text);
  const auto at_character = [&](std::size_t at) {
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u) ++at;
    return at;
  };
  const std::size_t head = at_character(kStart);
  const std::size_t tail = at_character(text.size() - kEnd);
  return fmt::format("{} ... ({} bytes left out) ... {}", text.substr(0, head), tail - head,
                     text.substr(tail));
}

}  // namespace

bool is_fancy_terminal(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

TerminalSize terminal_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

Console::Console(int fd, bool verbose)
    : fd_(fd), verbose_(verbose), fancy_(is_fancy_terminal(fd)) {}

Console::~Console() { clear_status(); }

void Console::note(std::string_view text) { line("", text); }
void Console::warning(std::string_view text) { line("warning: ", text); }
void Console::error(std::string_view text) { line("error: ", text); }

// Standard error is the last resort: where it fails there is nobody to tell.
void Console::line(std::string_view prefix, std::string_view text) {
  write(fmt::format("dllm: {}{}\n", prefix, single_line(shortened(text))));
}

void Console::write(std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  clear_status_locked();
  write_all(fd_, bytes);
}

void Console::status(std::string_view text) {
  if (!fancy_) return;
  const std::size_t columns = terminal_size(fd_).columns;
  const std::scoped_lock lock(mutex_);
  // Longer than a line would wrap and could not be taken back.
  write_all(fd_, fmt::format("\r\x1b[K{}", text.substr(0, columns - 1)));
  has_status_ = true;
}

void Console::clear_status() {
  const std::scoped_lock lock(mutex_);
  clear_status_locked();
}

void Console::clear_status_locked() {
  if (has_status_) write_all(fd_, "\r\x1b[K");
  has_status_ = false;
}

LogSink Console::log_sink() {
  return [this](LogLevel level, std::string_view component, std::string_view message) {
    const std::string text = fmt::format("{}: {}", component, message);
    if (level == LogLevel::error) return error(text);
    if (level == LogLevel::warning) return warning(text);
    if (verbose_) note(text);
  };
}

void write_answer(std::string_view bytes) {
  if (const int error = write_all(answer_fd, bytes)) refuse_output(error);
}

void write_model_text(const std::string& text) {
  const bool on_terminal = ::isatty(answer_fd) == 1;
  write_answer((on_terminal ? harmless_on_terminal(text) : text) + "\n");
}

int answer_descriptor() { return answer_fd; }

void check_answer_can_be_written() {
  const int flags = ::fcntl(answer_fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) refuse_output(EBADF);
}

void prepare_standard_streams() {
  watch_for_lost_files();
  // Failed writes are reported by the call that fails: no reader, and a file at the size limit.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // A closed stream gets /dev/null; for standard output the wrong way round, so that writing an
  // answer there still fails.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) != fd) std::_Exit(1);
  }
  // The answer keeps standard output to itself: what a plugin prints there joins standard error.
  const int kept = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (kept < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return;
  answer_fd = kept;
}

std::string counted(std::size_t n, std::string_view thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

std::string single_line(std::string_view text) {
  std::string out = replace_invalid_utf8(text);
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return out;
}

}  // namespace dllm::cli

#include "session/text_input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "arguments/escapes.hpp"
#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

[[noreturn]] void refuse_file(const std::string& option, const std::string& path,
                              std::string_view reason) {
  throw Error(ErrorCode::bad_usage, fmt::format("cannot read '{}': {}", path, reason), option,
              "give a readable file");
}

// A file descriptor that is closed again, standard input excepted.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ > STDERR_FILENO) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// A source that never ends (a device, a runaway pipe) is refused instead of filling the memory.
constexpr std::size_t kLargestTextMiB = 64;

std::string read_all(int fd, const std::string& option, const std::string& path) {
  std::string text;
  std::array<char, 65536> chunk;
  while (true) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse_file(option, path, std::strerror(errno));
    if (n == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(n));
    if (text.size() > kLargestTextMiB << 20) {
      throw Error(ErrorCode::bad_usage,
                  fmt::format("the text of '{}' is larger than {} MiB", path, kLargestTextMiB),
                  option, "give a shorter text");
    }
  }
}

// Something is connected that can bring a prompt: a pipe, file or socket; not a terminal or
// /dev/null.
bool stdin_brings_text() {
  struct stat status{};
  if (::fstat(STDIN_FILENO, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode);
}

std::string typed_text(const Settings& settings, std::string_view name) {
  const std::string text = settings.text(name);
  return settings.flag("escape") ? unescape(text) : text;
}

}  // namespace

std::string clean_file_text(std::string text, const std::string& place) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    throw Error(ErrorCode::bad_usage, "the text is UTF-16", place, "save it as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (text.ends_with('\n')) {
    text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
  }
  return text;
}

std::string read_text_file(const std::string& path, const std::string& option) {
  if (path == "-") return clean_file_text(read_all(STDIN_FILENO, option, "-"), "standard input");
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) refuse_file(option, path, std::strerror(errno));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) refuse_file(option, path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse_file(option, path, "it is a directory");
  return clean_file_text(read_all(file.get(), option, path), path);
}

std::string read_prompt(const Settings& settings, Console& console) {
  if (settings.has("prompt")) return typed_text(settings, "prompt");
  if (settings.text("file") == "-" && settings.text("system-file") == "-") {
    throw Error(ErrorCode::bad_usage,
                "standard input cannot be both the prompt and the system message",
                fmt::format("{}; {}", settings.origin("file"), settings.origin("system-file")),
                "give one of them as a file or as text");
  }
  if (settings.has("file")) {
    return read_text_file(settings.text("file"), settings.origin("file"));
  }
  if (stdin_brings_text()) {
    if (console.verbose()) console.note("the prompt comes from standard input");
    const std::string text = read_text_file("-", "standard input");
    if (!text.empty()) return text;
  }
  throw Error(ErrorCode::bad_usage, "no prompt", "command line",
              "give -p TEXT (-p \"\" for an empty one), -f FILE, or pipe the prompt in");
}

std::optional<std::string> read_system(const Settings& settings) {
  std::optional<std::string> text;
  if (settings.has("system")) text = typed_text(settings, "system");
  if (settings.has("system-file")) {
    text = read_text_file(settings.text("system-file"), settings.origin("system-file"));
  }
  if (text && !settings.flag("chat")) {
    const std::string_view name = settings.has("system") ? "system" : "system-file";
    throw Error(ErrorCode::bad_usage, "a system message needs the chat format, which is off",
                fmt::format("{}; {}", settings.origin(name), settings.origin("chat")),
                "leave out --no-chat, or put the text into the prompt");
  }
  return text;
}

}  // namespace dllm::cli

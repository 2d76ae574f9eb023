#include "session/output_path.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "dllm/error.hpp"
#include "output/complete_file.hpp"
#include "output/console.hpp"

namespace dllm::cli {
namespace {

// What a command reads: the option, and what a message calls its file.
struct Input {
  const char* option;
  const char* what;
};
constexpr std::array kInputs{Input{"model", "the model"}, Input{"file", "the prompt"},
                             Input{"system-file", "the system message"},
                             Input{"config", "a config file"},
                             Input{"compare", "the older result"}};

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// What kind of file stands there that no command writes, by its first bytes; empty for others.
std::string_view precious_kind(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return {};
  std::array<char, 4> magic{};
  std::ifstream in(path, std::ios::binary);
  if (!in.read(magic.data(), magic.size())) return {};
  const std::string_view bytes(magic.data(), magic.size());
  if (bytes == "GGUF") return "a GGUF file";
  if (bytes == "\177ELF") return "a program or plugin (ELF)";
  return {};
}

// A terminal counts, /dev/null does not: what goes there is lost either way.
bool is_standard_output(const std::string& path, const struct stat& status) {
  // Descriptor 1 itself is standard error's by now (prepare_standard_streams).
  if (path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1") return true;
  struct stat out{};
  if (::fstat(answer_descriptor(), &out) != 0 || !is_same_file(status, out)) return false;
  return !S_ISCHR(out.st_mode) || ::isatty(answer_descriptor()) == 1;
}

}  // namespace

void check_output_path(const Settings& settings, const std::string& path,
                       const std::string& option) {
  const auto refuse = [&](const std::string& fact) {
    throw Error(ErrorCode::bad_usage, fact, settings.origin(option), "give another file");
  };
  struct stat target{};
  if (::stat(path.c_str(), &target) != 0) return;  // nothing there that could be lost
  for (const Input& input : kInputs) {
    for (const std::string& name : settings.list(input.option)) {
      struct stat status{};
      if (::stat(name.c_str(), &status) == 0 && is_same_file(target, status)) {
        refuse(fmt::format("'{}' would be overwritten: it is {} ({})", path, input.what,
                           settings.origin(input.option)));
      }
    }
  }
  if (const std::string_view kind = precious_kind(path, target); !kind.empty()) {
    refuse(fmt::format("'{}' is {}", path, kind));
  }
  if (is_standard_output(path, target)) {
    refuse(fmt::format("'{}' is standard output, where only the answer goes", path));
  }
}

bool is_same_output(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code code;
  return std::filesystem::equivalent(a, b, code) || followed(a) == followed(b);
}

}  // namespace dllm::cli

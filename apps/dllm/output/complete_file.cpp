#include "output/complete_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

[[noreturn]] void refuse_write(const std::string& path, const std::string& option,
                               std::string_view reason) {
  throw Error(ErrorCode::resource, fmt::format("cannot write '{}': {}", path, reason), option,
              "give a place with enough room that can be written");
}

// A file that goes away unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;  // nothing else can be done about it here
    if (!kept_) std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::error_code keep_as(const std::string& target) {
    std::error_code error;
    std::filesystem::rename(path_, target, error);
    kept_ = !error;
    return error;
  }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace

void write_complete_file(const std::string& path, const std::string& option,
                         const std::function<void(std::ostream&)>& write) {
  TemporaryFile file(fmt::format("{}.{}.part", path, ::getpid()));
  errno = 0;
  std::ofstream out(file.path(), std::ios::binary | std::ios::trunc);
  if (!out) refuse_write(path, option, std::strerror(errno));
  write(out);
  out.close();
  if (!out) refuse_write(path, option, errno != 0 ? std::strerror(errno) : "the disk may be full");
  if (const std::error_code error = file.keep_as(path)) refuse_write(path, option, error.message());
}

void check_complete_file(const std::string& path, const std::string& option,
                         const std::string& content) {
  if (path == "-") {
    throw Error(ErrorCode::bad_usage, fmt::format("{} cannot go to standard output", content),
                option, "give the name of a file");
  }
  const std::filesystem::path target(path);
  const std::filesystem::path folder =
      target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  std::error_code status;
  if (!std::filesystem::is_directory(folder, status)) {
    throw Error(ErrorCode::bad_usage, fmt::format("folder '{}' does not exist", folder.string()),
                option, "make it, or give another place");
  }
  if (std::filesystem::exists(target, status) &&
      !std::filesystem::is_regular_file(target, status)) {
    throw Error(ErrorCode::bad_usage, fmt::format("'{}' is no regular file", path), option,
                "give the name of a file");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("cannot write into '{}': {}", folder.string(), std::strerror(errno)),
                option, "give another place");
  }
}

}  // namespace dllm::cli

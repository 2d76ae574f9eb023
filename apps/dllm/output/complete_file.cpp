#include "output/complete_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dllm/error.hpp"
#include "output/open_output.hpp"

namespace dllm::cli {
namespace {

bool takes_bytes_as_they_come(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::filesystem::path followed(std::filesystem::path path) {
  std::error_code code;
  constexpr int kMaxLinks = 40;  // as the system: more are a circle
  for (int i = 0; i < kMaxLinks && std::filesystem::is_symlink(path, code); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, code);
  }
  const auto target = std::filesystem::absolute(path, code);
  const auto plain = std::filesystem::weakly_canonical(target, code);
  return code ? target : plain;
}

CompleteFile::CompleteFile(const std::string& path, std::string option)
    : target_(followed(path).string()), option_(std::move(option)) {
  // A circle of links is given to the system, which says so.
  const bool direct = takes_bytes_as_they_come(path) || std::filesystem::is_symlink(target_);
  const std::string name = direct ? path : fmt::format("{}.{}.part", target_, ::getpid());
  open_output(out_, name, path, option_);
  if (!direct) written_ = name;
}

CompleteFile::~CompleteFile() {
  std::error_code ignored;  // nothing else can be done about it here
  if (!written_.empty()) std::filesystem::remove(written_, ignored);
}

void CompleteFile::keep() {
  errno = 0;
  out_.close();
  if (!out_) refuse(errno != 0 ? std::strerror(errno) : "the disk may be full");
  if (written_.empty()) return;
  std::error_code error;
  std::filesystem::rename(written_, target_, error);
  if (error) refuse(error.message());
  written_.clear();
}

void CompleteFile::refuse(const std::string& reason) const {
  throw Error(ErrorCode::resource, fmt::format("cannot write '{}': {}", target_, reason), option_,
              "give a place with enough room that can be written");
}

void write_complete_file(const std::string& path, const std::string& option,
                         const std::function<void(std::ostream&)>& write) {
  CompleteFile file(path, option);
  write(file.stream());
  file.keep();
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

#include "output/complete_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
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

// The folder that `path` names a file of; where it is none, what is wrong with it.
void check_folder(const std::filesystem::path& path, const std::string& option) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(folder, code);
  if (std::filesystem::is_directory(status)) return;
  std::string fact = fmt::format("folder '{}' does not exist", folder.string());
  if (status.type() != std::filesystem::file_type::not_found && code) {
    fact = fmt::format("folder '{}' cannot be used: {}", folder.string(), code.message());
  }
  std::filesystem::path part = folder;  // the longest that is there
  while (!std::filesystem::exists(part, code) && part.has_relative_path()) {
    part = part.parent_path();
  }
  if (std::filesystem::exists(part, code) && !std::filesystem::is_directory(part, code)) {
    fact = fmt::format("'{}' is a file, no folder", part.string());
  }
  throw Error(ErrorCode::bad_usage, fact, option, "give a file in a folder that exists");
}

}  // namespace

std::filesystem::path unfinished(const std::filesystem::path& target) {
  const std::string end = fmt::format(".{}.part", ::getpid());
  std::string name = target.filename().string();
  // A name of its own that is too long stays so, for the system to refuse.
  if (name.size() <= NAME_MAX) name.resize(std::min(name.size(), NAME_MAX - end.size()));
  return target.parent_path() / (name + end);
}

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
  std::error_code ignored;
  // A circle of links is given to the system, which says so.
  const bool direct =
      takes_bytes_as_they_come(path) || std::filesystem::is_symlink(target_, ignored);
  const std::string name = direct ? path : unfinished(target_).string();
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
  if (!out_) {
    refuse(errno != 0 ? std::strerror(errno)
                      : "the disk may be full, or the limit on a file's size reached");
  }
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
  std::error_code code;
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code)) {
    throw Error(ErrorCode::bad_usage, fmt::format("'{}' is no regular file", path), option,
                "give the name of a file");
  }
  check_output_file(path, option);
}

void check_output_file(const std::string& path, const std::string& option) {
  if (takes_bytes_as_they_come(path)) return;  // opening one may wait, or start what reads it
  check_folder(path, option);
  const CompleteFile tried(path, option);
}

}  // namespace dllm::cli

#include "output/logits_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

// NumPy format 1.0 (numpy.lib.format): magic, version, header length, a dict padded with blanks so
// that the data starts at a multiple of 64.
std::string npy_header(std::uint64_t n_rows, std::uint64_t n_cols) {
  std::string dict = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 n_rows, n_cols);
  constexpr std::size_t kPreamble = 10;
  dict.resize((kPreamble + dict.size() + 1 + 63) / 64 * 64 - kPreamble - 1, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

[[noreturn]] void refuse_write(const std::string& path, std::string_view reason) {
  throw Error(ErrorCode::resource, fmt::format("cannot write '{}': {}", path, reason), "--out",
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
  void keep_as(const std::string& target) {
    std::error_code error;
    std::filesystem::rename(path_, target, error);
    if (error) refuse_write(target, error.message());
    kept_ = true;
  }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace

std::string logits_format(const std::string& path) {
  return path.ends_with(".npy") ? "npy" : "raw";
}

void check_logits_path(const std::string& path) {
  if (path == "-") {
    throw Error(ErrorCode::bad_usage, "logits cannot go to standard output", "--out",
                "give the name of a file");
  }
  const std::filesystem::path target(path);
  const std::filesystem::path folder =
      target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  std::error_code status;
  if (!std::filesystem::is_directory(folder, status)) {
    throw Error(ErrorCode::bad_usage, fmt::format("folder '{}' does not exist", folder.string()),
                "--out", "make it, or give another place");
  }
  if (std::filesystem::exists(target, status) &&
      !std::filesystem::is_regular_file(target, status)) {
    throw Error(ErrorCode::bad_usage, fmt::format("'{}' is no regular file", path), "--out",
                "give the name of a file");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("cannot write into '{}': {}", folder.string(), std::strerror(errno)),
                "--out", "give another place");
  }
}

void write_logits(const std::string& path, std::span<const float> values, std::uint64_t n_rows) {
  check_logits_path(path);
  TemporaryFile file(fmt::format("{}.{}.part", path, ::getpid()));
  errno = 0;
  std::ofstream out(file.path(), std::ios::binary | std::ios::trunc);
  if (!out) refuse_write(path, std::strerror(errno));
  if (logits_format(path) == "npy") out << npy_header(n_rows, values.size() / n_rows);
  const std::span<const std::byte> bytes = std::as_bytes(values);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) refuse_write(path, errno != 0 ? std::strerror(errno) : "the disk may be full");
  file.keep_as(path);
}

}  // namespace dllm::cli

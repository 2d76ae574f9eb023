#include "gguf/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "dllm/error.hpp"
#include "gguf/fault.hpp"

namespace dllm::gguf {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void refuse(const std::filesystem::path& path, std::string fact, std::string fix) {
  throw Error(ErrorCode::bad_file, std::move(fact), printable_path(path), std::move(fix));
}

[[noreturn]] void refuse_system(const std::filesystem::path& path, int code, std::string fix) {
  refuse(path, fmt::format("cannot open the model file: {}", std::generic_category().message(code)),
         std::move(fix));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_regular(const std::filesystem::path& path, const struct stat& facts) {
  if (S_ISREG(facts.st_mode)) return;
  refuse(path, fmt::format("the model path is {}, not a file", kind_of(facts.st_mode)),
         "give the path of a .gguf file");
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  struct stat facts{};
  // Looked at before opening: opening a device or a pipe may have effects of its own.
  if (::stat(path.c_str(), &facts) != 0) refuse_system(path, errno, "check the path");
  require_regular(path, facts);
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) refuse_system(path, errno, "check the path and its permissions");
  if (::fstat(fd.get(), &facts) != 0) refuse_system(path, errno, "check the path");
  require_regular(path, facts);
  if (facts.st_size == 0) {
    refuse(path, "the file is empty (0 bytes)", "download or convert the model again");
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) refuse_system(path, errno, "check the memory limits (ulimit -v)");
  return {static_cast<const std::byte*>(data), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release_pages(std::span<const std::byte> range) const noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<std::size_t>(range.data() - data_);  // data_ starts a page
  const std::size_t first = (begin + page - 1) / page * page;
  const std::size_t last = (begin + range.size()) / page * page;
  if (first >= last) return;
  // The mapping is read-only and shared with the file: a dropped page reads the same bytes again.
  ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace dllm::gguf

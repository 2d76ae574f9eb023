// A file in memory that has a path: thousands of variants of one file without a disk.
//
//   MemoryFile file;
//   file.set(bytes);
//   GgufFile::open(file.path());
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dllm::test {

class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("test", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("memfd_create failed");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  /// Replaces what it holds.
  void set(std::string_view bytes) const {
    const auto size = static_cast<off_t>(bytes.size());
    if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, bytes.data(), bytes.size(), 0) != size) {
      throw std::runtime_error("cannot fill the memory file");
    }
  }

 private:
  int fd_;
};

}  // namespace dllm::test

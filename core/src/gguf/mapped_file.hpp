// A regular file mapped read-only.
//
//   MappedFile file = MappedFile::open(path);   // throws Error (bad_file) with the reason
//   std::span<const std::byte> bytes = file.bytes();
//
// Thread rule: const after open(), any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace dllm::gguf {

class MappedFile {
 public:
  /// Refuses what is no regular file (directory, FIFO, device) and an empty file. Never blocks.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  /// Drops the pages that lie wholly inside `range` (a part of bytes()) from this process.
  void release_pages(std::span<const std::byte> range) const noexcept;

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dllm::gguf

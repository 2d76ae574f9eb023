#include "memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint64_t kHugePage = 2u << 20;
constexpr std::uint64_t kPage = 4096;

[[noreturn]] void refuse(std::uint64_t bytes, const std::string& what) {
  throw Error(ErrorCode::resource, "the system refused " + std::to_string(bytes) + " bytes", what,
              "free memory, or use a smaller model or a shorter canvas");
}

// Maps `bytes` at a huge-page boundary: maps more, then gives back what sticks out.
void* map_huge_aligned(std::uint64_t bytes) {
  void* raw = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const std::uint64_t before = round_up(reinterpret_cast<std::uintptr_t>(raw), kHugePage) -
                               reinterpret_cast<std::uintptr_t>(raw);
  std::byte* data = begin + before;
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(data + bytes, kHugePage - before);
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

AlignedMemory::AlignedMemory(std::uint64_t bytes, const std::string& what) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::uint64_t padded = round_up(bytes + kAlignment, kAlignment);
  if (padded >= kHugePage) {
    mapped_bytes_ = round_up(padded, kPage);
    data_ = map_huge_aligned(mapped_bytes_);
  } else {
    data_ = std::aligned_alloc(kAlignment, padded);
    if (data_) std::memset(data_, 0, padded);
  }
  if (!data_) refuse(bytes, what);
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept { *this = std::move(other); }

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

AlignedMemory::~AlignedMemory() {
  if (mapped_bytes_ != 0) {
    munmap(data_, mapped_bytes_);
  } else {
    std::free(data_);
  }
}

}  // namespace dllm::cpu

#include "memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "dllm/error.hpp"
#include "machine.hpp"

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

HugePageFacts huge_page_facts(const std::string& proc, const std::string& sys) {
  HugePageFacts facts;
  std::ifstream modes(sys + "/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  for (std::string word; modes >> word;)
    if (word.size() > 2 && word.front() == '[') facts.granted = word.substr(1, word.size() - 2);
  // One mapping after another: its fields in kB, and last its flags, "hg" where asked for.
  std::ifstream smaps(proc + "/self/smaps");
  std::uint64_t resident_kib = 0;
  std::uint64_t huge_kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Rss:") words >> resident_kib;
    if (key == "AnonHugePages:") words >> huge_kib;
    if (key != "VmFlags:") continue;
    for (std::string flag; words >> flag;) {
      if (flag != "hg") continue;
      facts.resident_bytes += resident_kib * 1024;
      facts.huge_bytes += huge_kib * 1024;
    }
  }
  return facts;
}

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

void require_memory(std::uint64_t bytes, const std::string& what) {
  if (bytes < (1u << 20)) return;
  const std::uint64_t available = memory_facts({}).available_bytes;
  if (bytes <= available) return;
  throw Error(
      ErrorCode::resource,
      "needs " + std::to_string(bytes) + " bytes, " + std::to_string(available) + " are available",
      what, "free memory, or use a smaller model or a shorter canvas");
}

void grow(AlignedMemory& memory, std::uint64_t bytes, const char* what) {
  if (memory.bytes() >= bytes) return;
  require_memory(bytes, what);
  memory = AlignedMemory();
  memory = AlignedMemory(bytes, what);
}

}  // namespace dllm::cpu

// Aligned memory of the CPU backend.
//
//   AlignedMemory memory(bytes, "weights");  // 64-byte aligned, zero, not resident until touched
//   float* floats = memory.as<float>();
//
// Large pieces come straight from the system (huge pages where it grants them), so that what is
// never touched is never resident and what is freed goes back at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dllm::cpu {

constexpr std::size_t kAlignment = 64;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Owns zeroed memory, 64-byte aligned, with at least 64 readable bytes behind the end. Move-only.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  /// Throws Error (resource) with the bytes asked for when the system refuses. `what` names the
  /// use.
  AlignedMemory(std::uint64_t bytes, const std::string& what);
  AlignedMemory(AlignedMemory&& other) noexcept;
  AlignedMemory& operator=(AlignedMemory&& other) noexcept;
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  ~AlignedMemory();

  std::uint64_t bytes() const noexcept { return bytes_; }
  template <typename T>
  T* as() const noexcept {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t mapped_bytes_ = 0;  // 0: from the heap
};

/// Throws Error (resource) where fewer bytes are available: a refusal now is better than being
/// killed half way through a load.
void require_memory(std::uint64_t bytes, const std::string& what);

/// Makes `memory` at least `bytes` long; its contents are lost when it grows.
void grow(AlignedMemory& memory, std::uint64_t bytes, const char* what);

/// What lies in pieces for which huge pages were asked, over the whole process, as
/// `proc`/self/smaps says; `sys` tells what the system grants.
struct HugePageFacts {
  std::uint64_t resident_bytes = 0;
  std::uint64_t huge_bytes = 0;
  std::string granted;  ///< "always", "madvise", "never"; empty where the system does not say
};
HugePageFacts huge_page_facts(const std::string& proc, const std::string& sys);

}  // namespace dllm::cpu

#include "plugin/foreign_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace dllm {

std::string judge_memory(const void* at, std::size_t n_bytes, std::size_t alignment) {
  if (n_bytes == 0) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  if (begin % alignment != 0) {
    return fmt::format("it lies at {:#x}, which is no multiple of {}", begin, alignment);
  }
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = begin / page * page;
  const std::uintptr_t last = begin + (n_bytes - 1);
  bool is_mapped = last >= begin;
  if (is_mapped) {
    std::vector<unsigned char> resident((last - first) / page + 1);
    is_mapped = ::mincore(reinterpret_cast<void*>(first), last - first + 1, resident.data()) == 0 ||
                errno != ENOMEM;
  }
  return is_mapped ? std::string() : fmt::format("it lies at {:#x}, where no memory is", begin);
}

}  // namespace dllm

// Whether an address that a plugin supplied can be read at all.
#pragma once

#include <cstddef>
#include <string>

namespace dllm {

/// Empty where `n_bytes` from `at` are mapped memory and `at` is a multiple of `alignment`; else
/// the fact: "it lies at 0x8, where no memory is". A mistake found, not an attack: memory may be
/// mapped and hold something else. A system that does not tell counts as mapped.
std::string judge_memory(const void* at, std::size_t n_bytes, std::size_t alignment);

/// Of a list or table of `count` elements.
template <typename T>
std::string judge_memory(const T* at, std::size_t count = 1) {
  return judge_memory(at, count * sizeof(T), alignof(T));
}

}  // namespace dllm

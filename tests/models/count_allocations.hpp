// Counts calls of operator new in this program, for tests that a step allocates nothing.
#pragma once

#include <cstddef>

namespace dllm::test {

/// Allocations since the program started, all threads.
std::size_t count_allocations() noexcept;

}  // namespace dllm::test

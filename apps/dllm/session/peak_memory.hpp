// Peak resident memory of this process (VmHWM), mapped pages included.
#pragma once

#include <cstdint>

namespace dllm::cli {

/// Bytes; 0 where the system does not say.
std::uint64_t peak_memory_bytes();

}  // namespace dllm::cli

// The seed of a run: as given, or drawn for -1.
#pragma once

#include <cstdint>

#include "arguments/settings.hpp"

namespace dllm::cli {

/// A drawn seed has 32 bits, so that every JSON reader keeps it exactly.
std::uint64_t choose_seed(const Settings& settings);

}  // namespace dllm::cli

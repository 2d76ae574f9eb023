// What this machine can do at most, measured in a fraction of a second: the arithmetic units with
// operands in registers, memory with every thread reading.
//
//   DevicePeak peak = measure_peak(arena, "avx512vnni", false);
//
// The figures are of this moment: neighbours on a shared machine lower them. Thread rule: as Arena.
#pragma once

#include <string_view>

#include "arena.hpp"
#include "dllm/backend.hpp"

namespace dllm::cpu {

/// `isa` names the instruction set in use; its widest integer dot product and its f32
/// multiply-add are timed, the best of a few rounds; with `tiles`, the AMX unit without its loads.
/// Reads a buffer beyond every cache: 256 MiB or twice the last cache, at most a quarter of the
/// available memory; 0 GB/s where there is no room for one.
DevicePeak measure_peak(Arena& arena, std::string_view isa, bool tiles);

}  // namespace dllm::cpu

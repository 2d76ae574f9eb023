// Which kernels this machine runs: chosen once, from CPUID, or forced by name.
//
//   const Isa& isa = choose_isa("avx2", "backend cpu, option isa");
//
// To add an instruction set: one kernels_*.cpp, one line in isa.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels.hpp"

namespace dllm::cpu {

struct Isa {
  std::string_view name;
  const Kernels* kernels;          ///< null where this build has none
  const FastKernels* fast;         ///< null where it has none
  const BrainKernels* brains;      ///< likewise, or where this processor lacks BF16 products
  const AttentionMath* attention;  ///< with BF16 operands; null where it has none
  bool usable;                     ///< built and supported by this processor and its system
};

/// Slowest first.
std::span<const Isa> all_isas();

/// True where the processor has x86-64-v2 (told by SSE4.2, SSSE3 and POPCNT) or is another
/// architecture.
bool meets_baseline();

/// `name`: "auto" takes the fastest usable. Throws Error (bad_usage) for an unknown name, or one
/// that this machine cannot run, listing those it can; `origin` says where the name came from.
const Isa& choose_isa(std::string_view name, std::string_view origin);

}  // namespace dllm::cpu

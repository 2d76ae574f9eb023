// The products of AMX tiles (tiles_amx.inl) compiled for any x86-64 processor.
#pragma once

#include "kernels.hpp"

namespace dllm::cpu {

/// The functions of FastKernels and BrainKernels that use tiles.
struct AmxBaseline {
  void (*enter)();
  void (*leave)();
  void (*multiply_codes)(const CodeTile& tile, const FastBlock& first, uint32_t n_rows, float* acc);
  void (*multiply_brains)(const BrainTile& tile, const uint16_t* rows, uint32_t n_rows, float* acc);
};
/// Null where the compiler's target is no x86-64.
const AmxBaseline* amx_baseline();

}  // namespace dllm::cpu

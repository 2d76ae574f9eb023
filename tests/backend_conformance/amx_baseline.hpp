// What AMX tiles multiply (tiles_amx.inl, attention_tiles.inl), compiled for any x86-64 processor.
#pragma once

#include "kernels.hpp"

namespace dllm::cpu {

/// The functions of FastKernels that use tiles, and all of BrainKernels.
struct AmxBaseline {
  void (*enter)();
  void (*leave)();
  void (*multiply_codes)(const CodeTile& tile, const FastBlock& first, uint32_t n_rows, float* acc);
  BrainKernels brains;
};
/// Null where the compiler's target is no x86-64.
const AmxBaseline* amx_baseline();
/// attention_tiles.inl; null likewise.
const AttentionMath* amx_attention_baseline();

}  // namespace dllm::cpu

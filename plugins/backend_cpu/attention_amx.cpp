// Attention with AMX BF16 tiles.
#include "kernels.hpp"

#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "attention_tiles.inl"

}  // namespace

const AttentionMath* amx_attention() { return &kTileAttention; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const AttentionMath* amx_attention() { return nullptr; }
}  // namespace dllm::cpu

#endif

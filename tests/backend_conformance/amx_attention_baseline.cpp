#include "amx_baseline.hpp"

#if defined(__x86_64__)

namespace dllm::cpu {
namespace {

#include "attention_tiles.inl"

}  // namespace

const AttentionMath* amx_attention_baseline() { return &kTileAttention; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const AttentionMath* amx_attention_baseline() { return nullptr; }
}  // namespace dllm::cpu

#endif

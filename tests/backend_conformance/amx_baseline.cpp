#include "amx_baseline.hpp"

#if defined(__x86_64__)

namespace dllm::cpu {
namespace {

#include "vector.inl"
//
#include "tiles_amx.inl"

constexpr AmxBaseline kTable = {enter_tiles, leave_tiles, multiply_code_tile, multiply_brain_tile};

}  // namespace

const AmxBaseline* amx_baseline() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const AmxBaseline* amx_baseline() { return nullptr; }
}  // namespace dllm::cpu

#endif

#include "amx_baseline.hpp"

#if defined(__x86_64__)

namespace dllm::cpu {
namespace {

#include "brains.inl"
#include "tiles_amx.inl"

constexpr AmxBaseline kTable = {
    enter_tiles,
    leave_tiles,
    multiply_code_tile,
    {round_group, unpack_block, multiply_brain_tile, enter_tiles, leave_tiles}};

}  // namespace

const AmxBaseline* amx_baseline() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const AmxBaseline* amx_baseline() { return nullptr; }
}  // namespace dllm::cpu

#endif

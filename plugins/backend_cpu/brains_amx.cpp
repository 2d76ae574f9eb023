// BF16 products with AMX BF16 tiles.
#include "kernels.hpp"

#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "brains.inl"
// Uses names of the above.
#include "tiles_amx.inl"

constexpr BrainKernels kTable = {round_group, unpack_block, multiply_brain_tile, enter_tiles,
                                 leave_tiles};

}  // namespace

const BrainKernels* amx_brains() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const BrainKernels* amx_brains() { return nullptr; }
}  // namespace dllm::cpu

#endif

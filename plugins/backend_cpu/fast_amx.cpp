// The fast products with AMX int8 tiles.
#include "kernels.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "fast_avx512.inl"
#include "vector.inl"
// Uses names of the above.
#include "tiles_amx.inl"

// A block of 512 rows takes about 8 microseconds to multiply and as long to come from the
// third-level cache; four tiles leave a quarter of that.
constexpr uint32_t kPassTiles = 4;

constexpr FastKernels kTable = {takes,
                                requantise<false>,
                                unpack<false>,
                                quantise_block<true>,
                                multiply_code_tile,
                                enter_tiles,
                                leave_tiles,
                                kPassTiles,
                                true};

}  // namespace

const FastKernels* amx_fast() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const FastKernels* amx_fast() { return nullptr; }
}  // namespace dllm::cpu

#endif

// Kernels for AVX2 with AVX-VNNI: 256-bit vectors and vpdpbusd in its VEX encoding, as laptops and
// desktops without AVX-512 have it.
#include "kernels.hpp"

#if defined(__AVXVNNI__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "half.inl"
#include "row_math.inl"
#include "unpack.inl"

DLLM_INLINE __m256i dot_add(__m256i sum, __m256i weights, __m256i activations) {
  return _mm256_dpbusd_avx_epi32(sum, weights, activations);
}

// As an instruction: g++ 12 copies the sums of the intrinsic in the long loops of the fast
// products.
DLLM_INLINE void add_products(__m256i& sum, __m256i weights, __m256i activations) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weights), "x"(activations));
}

#include "codes_vnni256.inl"
#include "fast_vnni256.inl"

constexpr Kernels kTable = {"avxvnni",
                            unpack_codes,
                            multiply_codes,
                            row_math::multiply_floats,
                            row_math::widen_floats,
                            row_math_keeping<keep_centring>()};
constexpr FastKernels kFastTable = {takes_fast,    requantise, fast_unpack, quantise_block,
                                    multiply_fast, no_state,   no_state,    1,
                                    false};

}  // namespace

const Kernels* avxvnni_kernels() { return &kTable; }
const FastKernels* avxvnni_fast() { return &kFastTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const Kernels* avxvnni_kernels() { return nullptr; }
const FastKernels* avxvnni_fast() { return nullptr; }
}  // namespace dllm::cpu

#endif

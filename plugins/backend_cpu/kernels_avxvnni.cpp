// Kernels for AVX2 with AVX-VNNI: 256-bit vectors and vpdpbusd in its VEX encoding, as laptops and
// desktops without AVX-512 have it.
#include "kernels.hpp"

#if defined(__AVXVNNI__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#define DLLM_INLINE inline __attribute__((always_inline))

float half_to_float(const uint8_t* bytes) {
  uint16_t bits;
  __builtin_memcpy(&bits, bytes, 2);
  return _cvtsh_ss(bits);
}

#include "row_math.inl"
#include "unpack.inl"

DLLM_INLINE __m256i dot_add(__m256i sum, __m256i weights, __m256i activations) {
  return _mm256_dpbusd_avx_epi32(sum, weights, activations);
}

#include "codes_vnni256.inl"

constexpr Kernels kTable = {"avxvnni",
                            unpack_codes,
                            multiply_codes,
                            row_math::multiply_floats,
                            row_math::widen_floats,
                            row_math_keeping<keep_centring>()};

}  // namespace

const Kernels* avxvnni_kernels() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const Kernels* avxvnni_kernels() { return nullptr; }
}  // namespace dllm::cpu

#endif

#include "vnni256_evex.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace dllm::cpu::test {
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
  return _mm256_dpbusd_epi32(sum, weights, activations);
}

#include "codes_vnni256.inl"

constexpr Kernels kTable = {"avxvnni as EVEX",      unpack_codes,
                            multiply_codes,         row_math::multiply_floats,
                            row_math::widen_floats, row_math_keeping<keep_centring>()};

}  // namespace

const Kernels* vnni256_evex_kernels() { return &kTable; }

}  // namespace dllm::cpu::test

#else  // another architecture

namespace dllm::cpu::test {
const Kernels* vnni256_evex_kernels() { return nullptr; }
}  // namespace dllm::cpu::test

#endif

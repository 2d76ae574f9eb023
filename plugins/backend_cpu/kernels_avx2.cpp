// Kernels for AVX2 with FMA and F16C.
//
// multiply_codes holds one group of eight weight rows in registers (eight vectors: lane = weight
// row, four inputs per lane) and walks all activation rows: broadcast four activations, multiply
// bytes (vpmaddubsw), add in 16 bits as often as the code width allows, widen, scale, add to the
// f32 sum.
#include "kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

float half_to_float(const uint8_t* bytes) {
  uint16_t bits;
  __builtin_memcpy(&bits, bytes, 2);
  return _cvtsh_ss(bits);
}

#include "row_math.inl"
#include "unpack.inl"

#define DLLM_INLINE inline __attribute__((always_inline))

DLLM_INLINE __m256i broadcast4(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

// Dot products of unsigned codes. A vpmaddubsw result is at most 2 * 127 * largest code, so kAdds
// of them fit 16 bits: codes of 4 bits 8 times (30,480), 5 bits 4 times (31,496), 6 bits twice
// (32,004).
template <int kSteps, int kAdds>
DLLM_INLINE __m256i dot_unsigned(const __m256i* w, const int8_t* a) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i total = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; s += kAdds) {
    __m256i sum = _mm256_maddubs_epi16(w[s], broadcast4(a + 4 * s));
#pragma GCC unroll 8
    for (int t = 1; t < kAdds; ++t)
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w[s + t], broadcast4(a + 4 * (s + t))));
    const __m256i wide = _mm256_madd_epi16(sum, ones);
    total = s == 0 ? wide : _mm256_add_epi32(total, wide);
  }
  return total;
}

// Signed 8-bit codes: |w| times a with w's sign. 2 * 128 * 127 = 32,512 fits, but only once.
template <int kSteps>
DLLM_INLINE __m256i dot_signed(const __m256i* w, const int8_t* a) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i total = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s) {
    const __m256i signed_a = _mm256_sign_epi8(broadcast4(a + 4 * s), w[s]);
    const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(w[s]), signed_a);
    total = _mm256_add_epi32(total, _mm256_madd_epi16(products, ones));
  }
  return total;
}

template <int kSteps, int kAdds, bool kSigned>
DLLM_INLINE __m256i dot(const __m256i* w, const int8_t* a) {
  if constexpr (kSigned) return dot_signed<kSteps>(w, a);
  return dot_unsigned<kSteps, kAdds>(w, a);
}

// One group of 32 inputs, eight weight rows, all activation rows. kParts scales per group.
template <int kParts, int kAdds, bool kSigned>
void multiply_group(const CodeTile& tile, uint32_t group, uint32_t first_lane,
                    const ActivationGroup* a, uint32_t n_rows, float* acc) {
  constexpr int kSteps = 8 / kParts;
  __m256i w[8];
  __m256 scale[kParts], minimum[kParts];
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s)
    w[s] =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(tile.codes[group * 8 + s][first_lane]));
#pragma GCC unroll 2
  for (int p = 0; p < kParts; ++p) {
    scale[p] = _mm256_load_ps(tile.scale[group * kParts + p] + first_lane);
    minimum[p] = _mm256_load_ps(tile.minimum[group * kParts + p] + first_lane);
  }
  for (uint32_t r = 0; r < n_rows; ++r) {
    float* out = acc + static_cast<uint64_t>(r) * kTileRows;
    __m256 sum = _mm256_load_ps(out);
    const __m256 a_scale = _mm256_broadcast_ss(&a[r].scale);
#pragma GCC unroll 2
    for (int p = 0; p < kParts; ++p) {
      const __m256i product = dot<kSteps, kAdds, kSigned>(w + p * kSteps, a[r].codes + 16 * p);
      sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), _mm256_mul_ps(scale[p], a_scale), sum);
      if constexpr (!kSigned) {
        const float* total = kParts == 1 ? &a[r].sum32 : &a[r].sum16[p];
        sum = _mm256_fmadd_ps(minimum[p], _mm256_broadcast_ss(total), sum);
      }
    }
    _mm256_store_ps(out, sum);
  }
}

template <int kParts, int kAdds, bool kSigned>
void multiply_groups(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                     uint32_t n_rows, float* acc) {
  for (uint32_t g = 0; g < tile.n_groups32; ++g)
    for (uint32_t lane = 0; lane < kTileRows; lane += 8)
      multiply_group<kParts, kAdds, kSigned>(
          tile, g, lane, panel + static_cast<uint64_t>(g) * group_stride, n_rows, acc + lane);
}

void multiply_codes(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                    uint32_t n_rows, float* acc) {
  const auto multiply =
      tile.is_signed ? multiply_groups<1, 1, true>
      : !tile.half_groups
          ? (tile.code_bits <= 4 ? multiply_groups<1, 8, false> : multiply_groups<1, 4, false>)
      : tile.code_bits <= 5 ? multiply_groups<2, 4, false>
                            : multiply_groups<2, 2, false>;
  multiply(tile, panel, group_stride, n_rows, acc);
}

// kRows x (8 kVectors) elements of c in registers.
template <int kRows, int kVectors>
DLLM_INLINE void multiply_add_block(uint32_t n_k, const float* a, uint32_t lda, const float* b,
                                    uint32_t ldb, float* c, uint32_t ldc) {
  __m256 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = _mm256_loadu_ps(c + static_cast<uint64_t>(r) * ldc + 8 * v);
  for (uint32_t k = 0; k < n_k; ++k) {
    __m256 bk[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      bk[v] = _mm256_loadu_ps(b + static_cast<uint64_t>(k) * ldb + 8 * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 ak = _mm256_broadcast_ss(a + static_cast<uint64_t>(r) * lda + k);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_fmadd_ps(ak, bk[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      _mm256_storeu_ps(c + static_cast<uint64_t>(r) * ldc + 8 * v, sum[r][v]);
}

template <int kVectors>
void multiply_add_lanes(uint32_t n_rows, uint32_t n_k, const float* a, uint32_t lda, const float* b,
                        uint32_t ldb, float* c, uint32_t ldc) {
  constexpr uint32_t kBlock = 6;
  uint32_t r = 0;
  for (; r + kBlock <= n_rows; r += kBlock)
    multiply_add_block<kBlock, kVectors>(n_k, a + static_cast<uint64_t>(r) * lda, lda, b, ldb,
                                         c + static_cast<uint64_t>(r) * ldc, ldc);
  for (; r < n_rows; ++r)
    multiply_add_block<1, kVectors>(n_k, a + static_cast<uint64_t>(r) * lda, lda, b, ldb,
                                    c + static_cast<uint64_t>(r) * ldc, ldc);
}

void multiply_add(uint32_t n_rows, uint32_t n_k, uint32_t n_lanes, const float* a, uint32_t lda,
                  const float* b, uint32_t ldb, float* c, uint32_t ldc) {
  uint32_t lane = 0;
  for (; lane + 16 <= n_lanes; lane += 16)
    multiply_add_lanes<2>(n_rows, n_k, a, lda, b + lane, ldb, c + lane, ldc);
  for (; lane < n_lanes; lane += 8)
    multiply_add_lanes<1>(n_rows, n_k, a, lda, b + lane, ldb, c + lane, ldc);
}

constexpr Kernels kTable = {"avx2", unpack_tile, multiply_codes, multiply_add, kRowMath};

}  // namespace

const Kernels* avx2_kernels() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace dllm::cpu

#endif

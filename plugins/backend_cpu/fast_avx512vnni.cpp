// The fast products with AVX-512 VNNI.
//
// vpdpbusd takes unsigned weights: requantised codes get 128 added, and sums start at -128 times
// the sum of the activation codes. Up to 12 activation rows times 32 weight rows accumulate in 24
// registers over all kBlockCols inputs: per four inputs two loads of weights, a broadcast per
// activation row and two products per row, so the products alone decide.
#include "kernels.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "fast_avx512.inl"

constexpr uint32_t kMostRows = 12;

DLLM_INLINE __m512i broadcast4(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

// As an instruction, because g++ 12 keeps the sums of _mm512_dpbusd_epi32 in memory as well: half
// the speed.
DLLM_INLINE void add_products(__m512i& sum, __m512i weights, __m512i activations) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(activations));
}

DLLM_INLINE void add_scaled(__m512i sum, __m512 scale, float* out) {
  _mm512_store_ps(out, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, _mm512_load_ps(out)));
}

template <int kRows>
void multiply_rows(const CodeTile& tile, const FastBlock& a, float* acc) {
  __m512i low[kRows], high[kRows];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm512_set1_epi32(-128 * a.sums[r]);
  for (uint32_t k = 0; k < kBlockCols / 4; ++k) {
    const __m512i weights_low = _mm512_load_si512(tile.codes[k][0]);
    const __m512i weights_high = _mm512_load_si512(tile.codes[k][16]);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512i four = broadcast4(a.codes + r * static_cast<int>(kBlockCols) + 4 * k);
      add_products(low[r], weights_low, four);
      add_products(high[r], weights_high, four);
    }
  }
  const __m512 scale_low = _mm512_load_ps(tile.row_scale);
  const __m512 scale_high = _mm512_load_ps(tile.row_scale + 16);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    const __m512 scale = _mm512_set1_ps(a.scales[r]);
    float* out = acc + r * static_cast<int>(kTileRows);
    add_scaled(low[r], _mm512_mul_ps(scale_low, scale), out);
    add_scaled(high[r], _mm512_mul_ps(scale_high, scale), out + 16);
  }
}

using MultiplyRows = void (*)(const CodeTile&, const FastBlock&, float*);
constexpr MultiplyRows kMultiplyRows[kMostRows + 1] = {
    nullptr,           multiply_rows<1>,  multiply_rows<2>, multiply_rows<3>, multiply_rows<4>,
    multiply_rows<5>,  multiply_rows<6>,  multiply_rows<7>, multiply_rows<8>, multiply_rows<9>,
    multiply_rows<10>, multiply_rows<11>, multiply_rows<12>};

// Stretches of nearly equal length, so that none is short of independent sums.
void multiply(const CodeTile& tile, const FastBlock& first, uint32_t n_rows, float* acc) {
  uint32_t stretches = (n_rows + kMostRows - 1) / kMostRows;
  for (uint32_t r = 0; r < n_rows; --stretches) {
    const uint32_t rows = (n_rows - r + stretches - 1) / stretches;
    const FastBlock a = {first.codes + static_cast<uint64_t>(r) * kBlockCols, first.scales + r,
                         first.sums + r};
    kMultiplyRows[rows](tile, a, acc + static_cast<uint64_t>(r) * kTileRows);
    r += rows;
  }
}

void nothing() {}

constexpr FastKernels kTable = {takes,    requantise<true>, unpack<true>, quantise_block<false>,
                                multiply, nothing,          nothing,      1,
                                false};

}  // namespace

const FastKernels* avx512vnni_fast() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const FastKernels* avx512vnni_fast() { return nullptr; }
}  // namespace dllm::cpu

#endif

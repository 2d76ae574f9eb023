// BF16 products with AVX-512 BF16 (vdpbf16ps): up to 12 activation rows times 32 weight rows
// accumulate in 24 registers over a block. An element's sum of a block takes its pairs in order,
// whatever shares its tile.
#include "kernels.hpp"

#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "brains.inl"

constexpr uint32_t kMostRows = 12;

// As an instruction, because g++ 12 keeps arrays of the intrinsic's sums in memory as well.
DLLM_INLINE void add_products(__m512& sum, __m512i weights, __m512i activations) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(activations));
}

DLLM_INLINE __m512i broadcast2(const uint16_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

template <int kRows>
void multiply_rows(const BrainTile& tile, const uint16_t* rows, float* acc) {
  __m512 low[kRows], high[kRows];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm512_setzero_ps();
  for (uint32_t k = 0; k < kBlockCols / 2; ++k) {
    const __m512i weights_low = _mm512_load_si512(tile.pairs[k][0]);
    const __m512i weights_high = _mm512_load_si512(tile.pairs[k][16]);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512i two = broadcast2(rows + r * static_cast<int>(kBlockCols) + 2 * k);
      add_products(low[r], weights_low, two);
      add_products(high[r], weights_high, two);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    float* out = acc + r * static_cast<int>(kTileRows);
    _mm512_store_ps(out, _mm512_add_ps(_mm512_load_ps(out), low[r]));
    _mm512_store_ps(out + 16, _mm512_add_ps(_mm512_load_ps(out + 16), high[r]));
  }
}

using MultiplyRows = void (*)(const BrainTile&, const uint16_t*, float*);
constexpr MultiplyRows kMultiplyRows[kMostRows + 1] = {
    nullptr,           multiply_rows<1>,  multiply_rows<2>, multiply_rows<3>, multiply_rows<4>,
    multiply_rows<5>,  multiply_rows<6>,  multiply_rows<7>, multiply_rows<8>, multiply_rows<9>,
    multiply_rows<10>, multiply_rows<11>, multiply_rows<12>};

// Stretches of nearly equal length, so that none is short of independent sums.
void multiply(const BrainTile& tile, const uint16_t* rows, uint32_t n_rows, float* acc) {
  uint32_t stretches = (n_rows + kMostRows - 1) / kMostRows;
  for (uint32_t r = 0; r < n_rows; --stretches) {
    const uint32_t n = (n_rows - r + stretches - 1) / stretches;
    kMultiplyRows[n](tile, rows + uint64_t{r} * kBlockCols, acc + uint64_t{r} * kTileRows);
    r += n;
  }
}

void nothing() {}

constexpr BrainKernels kTable = {round_group, unpack_block, multiply, nothing, nothing};

}  // namespace

const BrainKernels* avx512bf16_brains() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const BrainKernels* avx512bf16_brains() { return nullptr; }
}  // namespace dllm::cpu

#endif

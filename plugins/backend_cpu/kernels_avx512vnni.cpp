// Kernels for AVX-512 (F, BW, DQ, VL) with VNNI.
//
// multiply_codes holds one group of all 32 weight rows in registers (16 vectors: lane = weight row,
// four inputs per lane) and walks all activation rows: broadcast four activations, add their
// products to 32-bit sums (vpdpbusd, unsigned codes times signed activations), scale, add to the
// f32 sum.
#include "block_kernels.hpp"
#include "kernels.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace dllm::cpu {
namespace {

#include "half.inl"
#include "row_math.inl"
#include "unpack.inl"

// vpdpbusd takes unsigned codes: signed ones get 128 added and a minimum of -128 scales.
void make_unsigned(CodeTile& tile) {
  for (uint32_t k = 0; k < tile.n_groups32 * 8; ++k)
    for (uint32_t i = 0; i < kTileRows * 4; i += 64) {
      uint8_t* codes = tile.codes[k][0] + i;
      _mm512_store_si512(codes, _mm512_xor_si512(_mm512_load_si512(codes),
                                                 _mm512_set1_epi8(static_cast<char>(0x80))));
    }
  for (uint32_t g = 0; g < tile.n_groups32; ++g) scaled(tile.scale[g], -128.0f, tile.minimum[g]);
  tile.is_signed = false;
}

void unpack_codes(CodeType type, const WeightBlock& block, CodeTile& tile) {
  unpack_tile(type, block, tile);
  if (tile.is_signed) make_unsigned(tile);
}

DLLM_INLINE __m512i broadcast_word(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

// One group of 32 inputs, all 32 weight rows, all activation rows. kParts scales per group.
template <int kParts>
void multiply_group(const CodeTile& tile, uint32_t group, const ActivationGroup* a, uint32_t n_rows,
                    float* acc) {
  constexpr int kSteps = 8 / kParts;
  __m512i w[8][2];
  __m512 scale[kParts][2], minimum[kParts][2];
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
      w[s][half] = _mm512_load_si512(tile.codes[group * 8 + s][16 * half]);
#pragma GCC unroll 2
  for (int p = 0; p < kParts; ++p)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      scale[p][half] = _mm512_load_ps(tile.scale[group * kParts + p] + 16 * half);
      minimum[p][half] = _mm512_load_ps(tile.minimum[group * kParts + p] + 16 * half);
    }
  for (uint32_t r = 0; r < n_rows; ++r) {
    float* out = acc + static_cast<uint64_t>(r) * kTileRows;
    __m512 sum[2] = {_mm512_load_ps(out), _mm512_load_ps(out + 16)};
    const __m512 a_scale = _mm512_set1_ps(a[r].scale);
#pragma GCC unroll 2
    for (int p = 0; p < kParts; ++p) {
      __m512i product[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 8
      for (int s = 0; s < kSteps; ++s) {
        const __m512i four = broadcast_word(a[r].codes + 4 * (p * kSteps + s));
        product[0] = _mm512_dpbusd_epi32(product[0], w[p * kSteps + s][0], four);
        product[1] = _mm512_dpbusd_epi32(product[1], w[p * kSteps + s][1], four);
      }
      const __m512 total = _mm512_set1_ps(kParts == 1 ? a[r].sum32 : a[r].sum16[p]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        sum[half] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product[half]),
                                    _mm512_mul_ps(scale[p][half], a_scale), sum[half]);
        sum[half] = _mm512_fmadd_ps(minimum[p][half], total, sum[half]);
      }
    }
    _mm512_store_ps(out, sum[0]);
    _mm512_store_ps(out + 16, sum[1]);
  }
}

void multiply_codes(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                    uint32_t n_rows, float* acc) {
  for (uint32_t g = 0; g < tile.n_groups32; ++g) {
    const ActivationGroup* a = panel + static_cast<uint64_t>(g) * group_stride;
    (tile.half_groups ? multiply_group<2> : multiply_group<1>)(tile, g, a, n_rows, acc);
  }
}

#include "blocks_avx512vnni.inl"

constexpr Kernels kTable = {
    "avx512vnni",           unpack_codes, multiply_codes, row_math::multiply_floats,
    row_math::widen_floats, kRowMath,     &kBlocks};

}  // namespace

const Kernels* avx512vnni_kernels() { return &kTable; }

}  // namespace dllm::cpu

#else  // another architecture

namespace dllm::cpu {
const Kernels* avx512vnni_kernels() { return nullptr; }
}  // namespace dllm::cpu

#endif

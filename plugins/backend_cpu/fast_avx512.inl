// Requantising for the fast products with AVX-512 BW; included inside the unnamed namespace of the
// files that multiply what it makes.
//
// A weight is w = scale * code + minimum per group. With unit = bound / 127, bound the largest |w|
// that a row's groups can hold in this block, the new code is round(w / unit). In fixed point with
// 8 fractional bits: code * S + M, S = scale / unit * 256 and M = minimum / unit * 256 + 128, which
// fits 16 bits; its upper byte is the result. S is off by at most 1/512, so the result by (largest
// code) / 512: an eighth of a step for 6-bit codes, a thirtieth for 4-bit ones.

#include "half.inl"
#include "unpack.inl"

constexpr float kSmallestBound = 1e-30f;

// The low 16 bits of each 32-bit lane, twice.
DLLM_INLINE __m512i twice(__m512i x) {
  const __m512i pattern = _mm512_set4_epi32(0x0D0C0D0C, 0x09080908, 0x05040504, 0x01000100);
  return _mm512_shuffle_epi8(x, pattern);
}

// S and M of one group, for both halves of the 32 rows.
struct GroupScale {
  __m512i s[2], m[2];
};

// 64 results from 16-bit codes of the even and of the odd inputs.
DLLM_INLINE __m512i requantise64(__m512i even, __m512i odd, __m512i s, __m512i m) {
  const __m512i upper = _mm512_set1_epi16(static_cast<int16_t>(0xFF00));
  const __m512i even_sum = _mm512_add_epi16(_mm512_mullo_epi16(even, s), m);
  const __m512i odd_sum = _mm512_add_epi16(_mm512_mullo_epi16(odd, s), m);
  // (upper & odd_sum) | (~upper & (even_sum >> 8))
  return _mm512_ternarylogic_epi32(upper, odd_sum, _mm512_srli_epi16(even_sum, 8), 0xCA);
}

// The largest |w| of 16 weight rows; NaN where a scale is NaN.
DLLM_INLINE __m512 bound_of(const CodeTile& tile, uint32_t n_groups, uint32_t first_row) {
  const __m512 largest = _mm512_set1_ps(static_cast<float>((1u << tile.code_bits) - 1));
  __m512 bound = _mm512_setzero_ps();
  __m512 poison = _mm512_setzero_ps();
  for (uint32_t g = 0; g < n_groups; ++g) {
    const __m512 minimum = _mm512_load_ps(tile.minimum[g] + first_row);
    const __m512 top = _mm512_fmadd_ps(largest, _mm512_load_ps(tile.scale[g] + first_row), minimum);
    bound = _mm512_max_ps(bound, _mm512_max_ps(_mm512_abs_ps(minimum), _mm512_abs_ps(top)));
    poison = _mm512_fmadd_ps(top, _mm512_setzero_ps(), poison);  // NaN from NaN or infinity
  }
  return _mm512_add_ps(bound, poison);
}

// Fills row_scale; returns 127 * 256 / bound of both halves, 0 where a row is zero or not finite.
DLLM_INLINE void scale_rows_of(CodeTile& tile, __m512 factor[2]) {
  const uint32_t n_groups = tile.half_groups ? 16 : 8;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512 bound = bound_of(tile, n_groups, 16 * half);
    _mm512_store_ps(tile.row_scale + 16 * half,
                    _mm512_mul_ps(bound, _mm512_set1_ps(1.0f / 127.0f)));
    const __mmask16 usable = _mm512_cmp_ps_mask(bound, _mm512_set1_ps(kSmallestBound), _CMP_GE_OQ);
    factor[half] = _mm512_maskz_div_ps(usable, _mm512_set1_ps(127.0f * 256.0f), bound);
  }
}

// With kUnsigned M carries 128 steps more (modulo 2^16), so the results do.
template <bool kUnsigned>
DLLM_INLINE GroupScale group_scale(const CodeTile& tile, uint32_t group, const __m512 factor[2]) {
  const __m512i more = _mm512_set1_epi32(kUnsigned ? 32768 : 0);  // in f32 it would round M
  GroupScale out;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512 scale = _mm512_load_ps(tile.scale[group] + 16 * half);
    const __m512 minimum = _mm512_load_ps(tile.minimum[group] + 16 * half);
    out.s[half] = twice(_mm512_cvtps_epi32(_mm512_mul_ps(scale, factor[half])));
    const __m512i m =
        _mm512_cvtps_epi32(_mm512_fmadd_ps(minimum, factor[half], _mm512_set1_ps(128.0f)));
    out.m[half] = twice(_mm512_add_epi32(m, more));
  }
  return out;
}

template <bool kUnsigned>
void requantise(CodeTile& tile) {
  const __m512i low_byte = _mm512_set1_epi16(0x00FF);
  const uint32_t steps = tile.half_groups ? 4 : 8;  // of four inputs
  __m512 factor[2];
  scale_rows_of(tile, factor);
  for (uint32_t step = 0; step < kBlockCols / 4; step += steps) {
    const GroupScale scale = group_scale<kUnsigned>(tile, step / steps, factor);
    for (uint32_t i = step; i < step + steps; ++i)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        uint8_t* codes = tile.codes[i][16 * half];
        const __m512i both = _mm512_load_si512(codes);
        _mm512_store_si512(
            codes, requantise64(_mm512_and_si512(both, low_byte), _mm512_srli_epi16(both, 8),
                                scale.s[half], scale.m[half]));
      }
  }
}

// Q4_K straight from its packed block (pack.hpp): a byte holds a code of group 2 k in its low half
// and one of group 2 k + 1 in its high half.
template <bool kUnsigned>
void requantise_q4_k(const uint8_t* block, CodeTile& tile) {
  const __m512i nibble = _mm512_set1_epi16(0x000F);
  k4_float_scales(block, 0, tile);
  __m512 factor[2];
  scale_rows_of(tile, factor);
  for (uint32_t k = 0; k < 4; ++k) {
    const GroupScale low = group_scale<kUnsigned>(tile, 2 * k, factor);
    const GroupScale high = group_scale<kUnsigned>(tile, 2 * k + 1, factor);
    for (uint32_t unit = 0; unit < 8; ++unit)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m512i q = _mm512_load_si512(words(block, 16 + 32 * k, unit) + 16 * half);
        const uint32_t step = 16 * k + unit;
        _mm512_store_si512(tile.codes[step][16 * half],
                           requantise64(_mm512_and_si512(q, nibble),
                                        _mm512_and_si512(_mm512_srli_epi16(q, 8), nibble),
                                        low.s[half], low.m[half]));
        _mm512_store_si512(tile.codes[step + 8][16 * half],
                           requantise64(_mm512_and_si512(_mm512_srli_epi16(q, 4), nibble),
                                        _mm512_srli_epi16(q, 12), high.s[half], high.m[half]));
      }
  }
}

// Q6_K likewise: four bits of a code in one field, two in another. `kQuarter` of 128 inputs.
template <bool kUnsigned, int kQuarter>
DLLM_INLINE void requantise_q6_k_quarter(const uint8_t* block, uint32_t n, const __m512 factor[2],
                                         CodeTile& tile) {
  const __m512i low_bits = _mm512_set1_epi16(0x0F0F);
  const __m512i code_bits = _mm512_set1_epi16(0x003F);
  for (uint32_t unit = 0; unit < 8; unit += 4) {
    const GroupScale scale = group_scale<kUnsigned>(tile, 8 * n + 2 * kQuarter + unit / 4, factor);
    for (uint32_t i = unit; i < unit + 4; ++i)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        __m512i low = _mm512_load_si512(words(block, 64 * n + 32 * (kQuarter % 2), i) + 16 * half);
        __m512i top = _mm512_load_si512(words(block, 128 + 32 * n, i) + 16 * half);
        if constexpr (kQuarter >= 2) low = _mm512_srli_epi16(low, 4);
        if constexpr (kQuarter < 2) top = _mm512_slli_epi16(top, 4 - 2 * kQuarter);
        if constexpr (kQuarter == 3) top = _mm512_srli_epi16(top, 2);
        // (low_bits & low) | (~low_bits & top); the two bits above a code are still there
        const __m512i both = _mm512_ternarylogic_epi32(low_bits, low, top, 0xCA);
        _mm512_store_si512(tile.codes[32 * n + 8 * kQuarter + i][16 * half],
                           requantise64(_mm512_and_si512(both, code_bits),
                                        _mm512_and_si512(_mm512_srli_epi16(both, 8), code_bits),
                                        scale.s[half], scale.m[half]));
      }
  }
}

template <bool kUnsigned>
void requantise_q6_k(const uint8_t* block, CodeTile& tile) {
  q6_k_float_scales(block, 0, tile);
  __m512 factor[2];
  scale_rows_of(tile, factor);
  for (uint32_t n = 0; n < 2; ++n) {
    requantise_q6_k_quarter<kUnsigned, 0>(block, n, factor, tile);
    requantise_q6_k_quarter<kUnsigned, 1>(block, n, factor, tile);
    requantise_q6_k_quarter<kUnsigned, 2>(block, n, factor, tile);
    requantise_q6_k_quarter<kUnsigned, 3>(block, n, factor, tile);
  }
}

// Not Q5_K: rounding its weights once more can make one and a half times llama.cpp's error
// (docs/accuracy.md).
bool takes(CodeType type) {
  return type >= CodeType::q2_k && type <= CodeType::q6_k && type != CodeType::q5_k;
}

template <bool kUnsigned>
void unpack(CodeType type, const WeightBlock& block, CodeTile& tile) {
  const Format format = format_of(type);
  tile.half_groups = format.half_groups;
  tile.code_bits = format.code_bits;
  if (type == CodeType::q4_k) return requantise_q4_k<kUnsigned>(block.data, tile);
  if (type == CodeType::q6_k) return requantise_q6_k<kUnsigned>(block.data, tile);
  unpack_tile(type, block, tile);
  requantise<kUnsigned>(tile);
}

// Rounds to nearest, ties to even.
template <bool kInTiles>
void quantise_block(const float* x, uint64_t group_stride, const FastBlock& row) {
  __m512 values[16];
  __m512 largest = _mm512_setzero_ps();
  __m512 poison = _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    values[i] = _mm512_loadu_ps(x + static_cast<uint64_t>(i / 2) * group_stride + 16 * (i % 2));
    largest = _mm512_max_ps(largest, _mm512_abs_ps(values[i]));
    poison = _mm512_fmadd_ps(values[i], _mm512_setzero_ps(), poison);  // NaN from NaN or infinity
  }
  const float amax = _mm512_reduce_max_ps(largest);
  const bool finite = _mm512_cmp_ps_mask(poison, poison, _CMP_ORD_Q) == 0xFFFF;
  const bool usable = finite && amax >= kSmallestBound;
  *row.scales = usable ? amax * (1.0f / 127.0f) : (finite ? 0.0f : __builtin_nanf(""));
  const __m512 inverse = _mm512_set1_ps(usable ? 127.0f / amax : 0.0f);
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const __m512 scaled = _mm512_maskz_mul_ps(usable ? 0xFFFF : 0, values[i], inverse);
    const __m512i codes = _mm512_cvtps_epi32(scaled);
    constexpr uint32_t kApart = kInTiles ? kCodeRows * kCodeCols : kCodeCols;
    int8_t* const to = row.codes + i / 4 * kApart + 16 * (i % 4);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(codes));
    sum = _mm512_add_epi32(sum, codes);
  }
  *row.sums = _mm512_reduce_add_epi32(sum);
}

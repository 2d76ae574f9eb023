// Requantising for the fast products with AVX-512 BW; included inside the unnamed namespace of the
// files that multiply what it makes.
//
// A weight is w = scale * code + minimum per group. With unit = bound / 127, bound the largest |w|
// that a row's groups can hold in this block, the new code is round(w / unit). In fixed point with
// 8 fractional bits: code * S + M, S = scale / unit * 256 and M = minimum / unit * 256 + 128, which
// fits 16 bits; its upper byte is the result. S is off by at most 1/512, so the result by (largest
// code) / 512: an eighth of a step for 6-bit codes, a thirtieth for 4-bit ones.

constexpr float kSmallestBound = 1e-30f;

// The low 16 bits of each 32-bit lane, twice.
inline __attribute__((always_inline)) __m512i twice(__m512i x) {
  const __m512i pattern = _mm512_set4_epi32(0x0D0C0D0C, 0x09080908, 0x05040504, 0x01000100);
  return _mm512_shuffle_epi8(x, pattern);
}

// 64 codes with one S and M per 32-bit lane. `flip` is 0x80 per byte for unsigned results, else 0.
inline __attribute__((always_inline)) __m512i requantise64(__m512i codes, __m512i s, __m512i m,
                                                           __m512i flip) {
  const __m512i upper = _mm512_set1_epi16(static_cast<int16_t>(0xFF00));
  const __m512i even = _mm512_andnot_si512(upper, codes);
  const __m512i odd = _mm512_srli_epi16(codes, 8);
  const __m512i even_sum = _mm512_add_epi16(_mm512_mullo_epi16(even, s), m);
  const __m512i odd_sum = _mm512_add_epi16(_mm512_mullo_epi16(odd, s), m);
  // (upper & odd_sum) | (~upper & (even_sum >> 8))
  const __m512i both =
      _mm512_ternarylogic_epi32(upper, odd_sum, _mm512_srli_epi16(even_sum, 8), 0xCA);
  return _mm512_xor_si512(both, flip);
}

// The largest |w| of 16 weight rows; NaN where a scale is NaN.
inline __attribute__((always_inline)) __m512 bound_of(const CodeTile& tile, uint32_t n_groups,
                                                      uint32_t first_row) {
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

template <bool kUnsigned>
void requantise(CodeTile& tile) {
  const uint32_t n_groups = tile.half_groups ? 16 : 8;
  const uint32_t steps = tile.half_groups ? 4 : 8;  // of four inputs
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(kUnsigned ? 0x80 : 0));
  __m512 factor[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512 bound = bound_of(tile, n_groups, 16 * half);
    _mm512_store_ps(tile.row_scale + 16 * half,
                    _mm512_mul_ps(bound, _mm512_set1_ps(1.0f / 127.0f)));
    const __mmask16 usable = _mm512_cmp_ps_mask(bound, _mm512_set1_ps(kSmallestBound), _CMP_GE_OQ);
    factor[half] = _mm512_maskz_div_ps(usable, _mm512_set1_ps(127.0f * 256.0f), bound);
  }
  for (uint32_t g = 0; g < n_groups; ++g) {
    __m512i s[2], m[2];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512 scale = _mm512_load_ps(tile.scale[g] + 16 * half);
      const __m512 minimum = _mm512_load_ps(tile.minimum[g] + 16 * half);
      s[half] = twice(_mm512_cvtps_epi32(_mm512_mul_ps(scale, factor[half])));
      m[half] =
          twice(_mm512_cvtps_epi32(_mm512_fmadd_ps(minimum, factor[half], _mm512_set1_ps(128.0f))));
    }
    for (uint32_t step = g * steps; step < (g + 1) * steps; ++step)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        uint8_t* codes = tile.codes[step][16 * half];
        _mm512_store_si512(codes, requantise64(_mm512_load_si512(codes), s[half], m[half], flip));
      }
  }
}

// Rounds to nearest, ties to even.
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
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row.codes + 16 * i), _mm512_cvtepi32_epi8(codes));
    sum = _mm512_add_epi32(sum, codes);
  }
  *row.sums = _mm512_reduce_add_epi32(sum);
}

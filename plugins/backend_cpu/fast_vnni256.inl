// The fast products in 256-bit vectors: requantising, quantising and vpdpbusd on unsigned codes.
// The arithmetic of fast_avx512.inl, which explains it, with the same results bit for bit. Included
// after codes_vnni256.inl by the same files, which define
// add_products(sum, weights, activations) in their encoding.
//
// vpdpbusd takes unsigned weights: requantised codes get 128 added, and sums start at -128 times
// the sum of the activation codes. Up to 6 activation rows times 16 weight rows accumulate in 12 of
// the 16 registers over all kBlockCols inputs.

constexpr float kSmallestBound = 1e-30f;
constexpr uint32_t kMostFastRows = 6;

DLLM_INLINE __m256 magnitude(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

// 16-bit factor and addend of eight weight rows, each twice, for both of a 32-bit lane's codes.
struct Rounding8 {
  __m256i s, m;
};

// The low 16 bits of each 32-bit lane, twice.
DLLM_INLINE __m256i twice(__m256i x) {
  const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xFFFF));
  return _mm256_or_si256(low, _mm256_slli_epi32(x, 16));
}

// 32 results from 16-bit codes of the even and of the odd inputs.
DLLM_INLINE __m256i requantise32(__m256i even, __m256i odd, const Rounding8& by) {
  const __m256i upper = _mm256_set1_epi16(static_cast<int16_t>(0xFF00));
  const __m256i even_sum = _mm256_add_epi16(_mm256_mullo_epi16(even, by.s), by.m);
  const __m256i odd_sum = _mm256_add_epi16(_mm256_mullo_epi16(odd, by.s), by.m);
  return _mm256_or_si256(_mm256_and_si256(odd_sum, upper), _mm256_srli_epi16(even_sum, 8));
}

// The largest |w| of eight weight rows; NaN where a scale is NaN.
DLLM_INLINE __m256 bound_of(const CodeTile& tile, uint32_t n_groups, uint32_t row) {
  const __m256 largest = _mm256_set1_ps(static_cast<float>((1u << tile.code_bits) - 1));
  __m256 bound = _mm256_setzero_ps();
  __m256 poison = _mm256_setzero_ps();
  for (uint32_t g = 0; g < n_groups; ++g) {
    const __m256 minimum = _mm256_load_ps(tile.minimum[g] + row);
    const __m256 top = _mm256_fmadd_ps(largest, _mm256_load_ps(tile.scale[g] + row), minimum);
    bound = _mm256_max_ps(bound, _mm256_max_ps(magnitude(minimum), magnitude(top)));
    poison = _mm256_fmadd_ps(top, _mm256_setzero_ps(), poison);  // NaN from NaN or infinity
  }
  return _mm256_add_ps(bound, poison);
}

// Fills row_scale; leaves 127 * 256 / bound of every row, 0 where a row is zero or not finite.
struct RowFactors {
  __m256 at[kTileRows / 8];
};
DLLM_INLINE RowFactors scale_rows_of(CodeTile& tile) {
  const uint32_t n_groups = tile.half_groups ? 16 : 8;
  RowFactors factors;
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kTileRows / 8; ++i) {
    const __m256 bound = bound_of(tile, n_groups, 8 * i);
    _mm256_store_ps(tile.row_scale + 8 * i, _mm256_mul_ps(bound, _mm256_set1_ps(1.0f / 127.0f)));
    const __m256 usable = _mm256_cmp_ps(bound, _mm256_set1_ps(kSmallestBound), _CMP_GE_OQ);
    factors.at[i] = _mm256_and_ps(usable, _mm256_div_ps(_mm256_set1_ps(127.0f * 256.0f), bound));
  }
  return factors;
}

// M carries 128 steps more (modulo 2^16), so the results do.
DLLM_INLINE Rounding8 rounding_of(const CodeTile& tile, uint32_t group, uint32_t i,
                                  const RowFactors& factors) {
  const __m256 scale = _mm256_load_ps(tile.scale[group] + 8 * i);
  const __m256 minimum = _mm256_load_ps(tile.minimum[group] + 8 * i);
  const __m256i m =
      _mm256_cvtps_epi32(_mm256_fmadd_ps(minimum, factors.at[i], _mm256_set1_ps(128.0f)));
  return {twice(_mm256_cvtps_epi32(_mm256_mul_ps(scale, factors.at[i]))),
          twice(_mm256_add_epi32(m, _mm256_set1_epi32(32768)))};  // in f32 it would round M
}

DLLM_INLINE __m256i load_codes(const void* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(from));
}
DLLM_INLINE void store_codes(uint8_t* to, __m256i codes) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), codes);
}

void requantise(CodeTile& tile) {
  const __m256i low_byte = _mm256_set1_epi16(0x00FF);
  const uint32_t steps = tile.half_groups ? 4 : 8;  // of four inputs
  const RowFactors factors = scale_rows_of(tile);
  for (uint32_t step = 0; step < kBlockCols / 4; step += steps)
    for (uint32_t i = 0; i < kTileRows / 8; ++i) {
      const Rounding8 by = rounding_of(tile, step / steps, i, factors);
      for (uint32_t k = step; k < step + steps; ++k) {
        uint8_t* codes = tile.codes[k][8 * i];
        const __m256i both = load_codes(codes);
        store_codes(codes,
                    requantise32(_mm256_and_si256(both, low_byte), _mm256_srli_epi16(both, 8), by));
      }
    }
}

// Q4_K straight from its packed block (pack.hpp): a byte holds a code of group 2 k in its low half
// and one of group 2 k + 1 in its high half.
void requantise_q4_k(const uint8_t* block, CodeTile& tile) {
  const __m256i nibble = _mm256_set1_epi16(0x000F);
  k4_float_scales(block, 0, tile);
  const RowFactors factors = scale_rows_of(tile);
  for (uint32_t k = 0; k < 4; ++k)
    for (uint32_t i = 0; i < kTileRows / 8; ++i) {
      const Rounding8 low = rounding_of(tile, 2 * k, i, factors);
      const Rounding8 high = rounding_of(tile, 2 * k + 1, i, factors);
      for (uint32_t unit = 0; unit < 8; ++unit) {
        const __m256i q = load_codes(words(block, 16 + 32 * k, unit) + 8 * i);
        const uint32_t step = 16 * k + unit;
        store_codes(tile.codes[step][8 * i],
                    requantise32(_mm256_and_si256(q, nibble),
                                 _mm256_and_si256(_mm256_srli_epi16(q, 8), nibble), low));
        store_codes(tile.codes[step + 8][8 * i],
                    requantise32(_mm256_and_si256(_mm256_srli_epi16(q, 4), nibble),
                                 _mm256_srli_epi16(q, 12), high));
      }
    }
}

void fast_unpack(CodeType type, const WeightBlock& block, CodeTile& tile) {
  const Format format = format_of(type);
  tile.half_groups = format.half_groups;
  tile.code_bits = format.code_bits;
  if (type == CodeType::q4_k) return requantise_q4_k(block.data, tile);
  unpack_tile(type, block, tile);
  requantise(tile);
}

// Eight values as integers, rounded to nearest, ties to even; zeros where `usable` is zero bits.
DLLM_INLINE __m256i codes_of(const float* x, __m256 inverse, __m256 usable) {
  return _mm256_cvtps_epi32(_mm256_and_ps(usable, _mm256_mul_ps(_mm256_loadu_ps(x), inverse)));
}

void quantise_block(const float* x, uint64_t group_stride, const FastBlock& row) {
  __m256 largest = _mm256_setzero_ps();
  __m256 poison = _mm256_setzero_ps();
  for (uint32_t k = 0; k < kBlockCols; k += 8) {
    const __m256 values = _mm256_loadu_ps(x + k / kGroupCols * group_stride + k % kGroupCols);
    largest = _mm256_max_ps(largest, magnitude(values));
    poison = _mm256_fmadd_ps(values, _mm256_setzero_ps(), poison);  // NaN from NaN or infinity
  }
  float lanes[8];
  _mm256_storeu_ps(lanes, largest);
  float amax = 0;
  for (const float each : lanes) amax = each > amax ? each : amax;
  const bool finite = _mm256_movemask_ps(_mm256_cmp_ps(poison, poison, _CMP_ORD_Q)) == 0xFF;
  const bool usable = finite && amax >= kSmallestBound;
  *row.scales = usable ? amax * (1.0f / 127.0f) : (finite ? 0.0f : __builtin_nanf(""));
  const __m256 inverse = _mm256_set1_ps(usable ? 127.0f / amax : 0.0f);
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(usable ? -1 : 0));
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i sum = _mm256_setzero_si256();
  for (uint32_t g = 0; g < kBlockCols / kGroupCols; ++g) {
    const float* from = x + g * group_stride;
    __m256i part[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      part[i] = codes_of(from + 8 * i, inverse, mask);
      sum = _mm256_add_epi32(sum, part[i]);
    }
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]),
                                             _mm256_packs_epi32(part[2], part[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row.codes + g * kGroupCols),
                        _mm256_permutevar8x32_epi32(bytes, in_order));
  }
  int32_t sums[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), sum);
  *row.sums = 0;
  for (const int32_t each : sums) *row.sums += each;
}

template <int kRows>
void multiply_fast_rows(const CodeTile& tile, const FastBlock& a, float* acc) {
  for (uint32_t lane = 0; lane < kTileRows; lane += 16) {
    __m256i sum[kRows][2];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm256_set1_epi32(-128 * a.sums[r]);
    for (uint32_t k = 0; k < kBlockCols / 4; ++k) {
      const __m256i low = load_codes(tile.codes[k][lane]);
      const __m256i high = load_codes(tile.codes[k][lane + 8]);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const __m256i four = broadcast4(a.codes + r * static_cast<int>(kBlockCols) + 4 * k);
        add_products(sum[r][0], low, four);
        add_products(sum[r][1], high, four);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        float* out = acc + r * static_cast<int>(kTileRows) + lane + 8 * v;
        const __m256 scale = _mm256_mul_ps(_mm256_load_ps(tile.row_scale + lane + 8 * v),
                                           _mm256_broadcast_ss(a.scales + r));
        _mm256_store_ps(out,
                        _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][v]), scale, _mm256_load_ps(out)));
      }
  }
}

using MultiplyFastRows = void (*)(const CodeTile&, const FastBlock&, float*);
constexpr MultiplyFastRows kMultiplyFastRows[kMostFastRows + 1] = {nullptr,
                                                                   multiply_fast_rows<1>,
                                                                   multiply_fast_rows<2>,
                                                                   multiply_fast_rows<3>,
                                                                   multiply_fast_rows<4>,
                                                                   multiply_fast_rows<5>,
                                                                   multiply_fast_rows<6>};

// Stretches of nearly equal length, so that none is short of independent sums.
void multiply_fast(const CodeTile& tile, const FastBlock& first, uint32_t n_rows, float* acc) {
  uint32_t stretches = (n_rows + kMostFastRows - 1) / kMostFastRows;
  for (uint32_t r = 0; r < n_rows; --stretches) {
    const uint32_t rows = (n_rows - r + stretches - 1) / stretches;
    const FastBlock a = {first.codes + static_cast<uint64_t>(r) * kBlockCols, first.scales + r,
                         first.sums + r};
    kMultiplyFastRows[rows](tile, a, acc + static_cast<uint64_t>(r) * kTileRows);
    r += rows;
  }
}

void no_state() {}

// As with AVX-512: rounding Q5_K once more costs too much accuracy (docs/accuracy.md).
bool takes_fast(CodeType type) {
  return type >= CodeType::q2_k && type <= CodeType::q6_k && type != CodeType::q5_k;
}

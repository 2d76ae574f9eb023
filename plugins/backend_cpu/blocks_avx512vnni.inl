// BlockKernels for AVX-512 with VNNI. Included inside the unnamed namespace of
// kernels_avx512vnni.cpp, after unpack.inl.
//
// multiply keeps the sums of a few activation rows and all 32 weight rows in registers (lane =
// weight row) and walks the block: load four inputs of 32 rows, broadcast four activations,
// vpdpbusd. Two groups make one 32-bit lane: the odd group's product p1 is moved up by 16 bits and
// the even one's p0 added below it, biased by 2^15 so that a negative p0 borrows nothing; flipping
// bit 15 takes the bias away. One vpdpwssd then adds p0 * s0 + p1 * s1, where s = scale *
// multiplier.
//
// On Zen 4 every multiplication goes through two of four pipes, and these are the limit: per group
// of 32 inputs and 32 weight rows 16 vpdpbusd, 1 vpmullw and 1 vpdpwssd for the scales, 1 vpdpwssd
// for the minimums and 6 / 8 float operations: 19.75 cycles. The float form takes 22.

template <BlockForm kForm>
struct FormTraits {
  static constexpr bool kHasOffset = kForm == BlockForm::offset_32 || kForm == BlockForm::offset_4;
  static constexpr int kOffsetShift = kForm == BlockForm::offset_4 ? 3 : 0;  // 32 to 4
  static constexpr int kPairs = kForm == BlockForm::minimums ? 4 : 8;
  static constexpr int kSteps = kForm == BlockForm::minimums ? 8 : 4;  // of four inputs, in a group
};

constexpr int64_t kMostSum = INT32_MAX;
static_assert(2 * kMostCodes * 15 <= INT16_MAX && kMostCodes * 32 <= INT16_MAX);
static_assert(int64_t{8} * 2 * kMostCodes * 15 * 63 * kMostMultiplier <= kMostSum);
static_assert(int64_t{16} * kMostCodes * 31 * 63 * kMostMultiplier <= kMostSum);
static_assert(int64_t{8} * kMostCodes * 32 * 128 * kMostMultiplier <= kMostSum);  // 128 inputs
static_assert(128 * kMostMultiplier <= INT16_MAX);

// Products of one pair of groups, packed as 16-bit pairs: sum[r][half].
template <int kRows, BlockForm kForm>
DLLM_INLINE void multiply_pair(const BlockTile& tile, const ActivationBlock* a, int pair,
                               __m512i (&sum)[kRows][2]) {
  using Traits = FormTraits<kForm>;
  const __m512i bias = _mm512_set1_epi32(0x8000);
#pragma GCC unroll 2
  for (int odd = 1; odd >= 0; --odd) {
    const int group = 2 * pair + odd;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (Traits::kHasOffset)
        start = _mm512_srai_epi32(broadcast_word(a[r].offsets + group), Traits::kOffsetShift);
      if (!odd) start = _mm512_add_epi32(start, bias);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half)
        sum[r][half] = odd ? start : _mm512_add_epi32(_mm512_slli_epi32(sum[r][half], 16), start);
    }
#pragma GCC unroll 8
    for (int s = 0; s < Traits::kSteps; ++s) {
      const int step = group * Traits::kSteps + s;
      const __m512i low = _mm512_load_si512(tile.codes[step][0]);
      const __m512i high = _mm512_load_si512(tile.codes[step][16]);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512i four = broadcast_word(a[r].codes + 4 * step);
        sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], low, four);
        sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], high, four);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) sum[r][half] = _mm512_xor_si512(sum[r][half], bias);
}

template <int kRows, BlockForm kForm>
DLLM_INLINE void add_pair(const BlockTile& tile, const ActivationBlock* a, int pair,
                          __m512i (&total)[kRows][2]) {
  __m512i sum[kRows][2];
  multiply_pair<kRows, kForm>(tile, a, pair, sum);
  const __m512i low = _mm512_load_si512(tile.scales[pair][0]);
  const __m512i high = _mm512_load_si512(tile.scales[pair][16]);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512i multipliers = kForm == BlockForm::minimums
                                    ? broadcast_word(a[r].multipliers + 2 * pair)
                                    : _mm512_set1_epi16(a[r].multipliers[pair]);
    total[r][0] = _mm512_dpwssd_epi32(total[r][0], sum[r][0], _mm512_mullo_epi16(low, multipliers));
    total[r][1] =
        _mm512_dpwssd_epi32(total[r][1], sum[r][1], _mm512_mullo_epi16(high, multipliers));
  }
}

// Sum of minimum * multiplier * (sum of codes), as f32.
template <int kRows>
DLLM_INLINE void multiply_minimums(const BlockTile& tile, const ActivationBlock* a,
                                   __m512 (&out)[kRows][2]) {
  __m512i total[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) total[r][0] = total[r][1] = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    const __m512i low = _mm512_load_si512(tile.minimums[pair][0]);
    const __m512i high = _mm512_load_si512(tile.minimums[pair][16]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i sums = broadcast_word(a[r].sums + 2 * pair);
      total[r][0] = _mm512_dpwssd_epi32(total[r][0], low, sums);
      total[r][1] = _mm512_dpwssd_epi32(total[r][1], high, sums);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512i shift = _mm512_set1_epi32(a[r].sum_shift);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
      out[r][half] = _mm512_cvtepi32_ps(_mm512_sllv_epi32(total[r][half], shift));
  }
}

// One block of kRows activation rows.
template <int kRows, BlockForm kForm>
DLLM_INLINE void multiply_rows(const BlockTile& tile, const ActivationBlock* a, float* acc) {
  using Traits = FormTraits<kForm>;
  constexpr int kStretches = kForm == BlockForm::offset_32 ? 2 : 1;  // sums that fit 32 bits
  constexpr int kPairsEach = Traits::kPairs / kStretches;
  __m512 sum[kRows][2];
#pragma GCC unroll 2
  for (int stretch = 0; stretch < kStretches; ++stretch) {
    __m512i total[kRows][2];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) total[r][0] = total[r][1] = _mm512_setzero_si512();
#pragma GCC unroll 1
    for (int pair = 0; pair < kPairsEach; ++pair)
      add_pair<kRows, kForm>(tile, a, stretch * kPairsEach + pair, total);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m512 part = _mm512_cvtepi32_ps(total[r][half]);
        sum[r][half] = stretch == 0 ? part : _mm512_add_ps(sum[r][half], part);
      }
  }
  __m512 minimum[kRows][2];
  if constexpr (!Traits::kHasOffset) multiply_minimums<kRows>(tile, a, minimum);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512 d = _mm512_load_ps(tile.d + 16 * half);
    const __m512 minus_dmin = _mm512_load_ps(tile.minus_dmin + 16 * half);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m512 value = _mm512_mul_ps(sum[r][half], d);
      if constexpr (!Traits::kHasOffset)
        value = _mm512_fmadd_ps(minimum[r][half], minus_dmin, value);
      float* out = acc + r * kTileRows + 16 * half;
      _mm512_store_ps(out, _mm512_fmadd_ps(value, _mm512_set1_ps(a[r].unit), _mm512_load_ps(out)));
    }
  }
}

template <BlockForm kForm>
void multiply_block(const BlockTile& tile, const ActivationBlock* a, uint32_t n_rows, float* acc) {
  // 24 sums in registers beside the weights. Eight or more chains hide the latency of vpdpbusd.
  constexpr uint32_t kRows = 4;
  uint32_t r = 0;
  for (; r + kRows <= n_rows; r += kRows)
    multiply_rows<kRows, kForm>(tile, a + r, acc + static_cast<uint64_t>(r) * kTileRows);
  float* out = acc + static_cast<uint64_t>(r) * kTileRows;
  switch (n_rows - r) {
    case 3:
      return multiply_rows<3, kForm>(tile, a + r, out);
    case 2:
      return multiply_rows<2, kForm>(tile, a + r, out);
    case 1:
      return multiply_rows<1, kForm>(tile, a + r, out);
    default:
      return;
  }
}

void multiply_blocks(const BlockTile& tile, const ActivationBlock* rows, uint32_t n_rows,
                     float* acc) {
  switch (tile.form) {
    case BlockForm::minimums:
      return multiply_block<BlockForm::minimums>(tile, rows, n_rows, acc);
    case BlockForm::wide_minimums:
      return multiply_block<BlockForm::wide_minimums>(tile, rows, n_rows, acc);
    case BlockForm::offset_32:
      return multiply_block<BlockForm::offset_32>(tile, rows, n_rows, acc);
    case BlockForm::offset_4:
      return multiply_block<BlockForm::offset_4>(tile, rows, n_rows, acc);
  }
}

template <typename Byte>
void pair_up(const Byte* even, const Byte* odd, int16_t (*to)[2]) {
  for (uint32_t row = 0; row < kTileRows; ++row) {
    to[row][0] = even[row];
    to[row][1] = odd[row];
  }
}

void k4_integer_scales(const uint8_t* b, BlockForm form, BlockTile& tile) {
  halves(b, tile.d);
  halves(field(b, 2), tile.minus_dmin);
  scaled(tile.minus_dmin, -1.0f, tile.minus_dmin);
  uint8_t scales[kBlockGroups][kTileRows], minimums[kBlockGroups][kTileRows];
  for (uint32_t g = 0; g < kBlockGroups; ++g) k4_scales(b, g, scales[g], minimums[g]);
  for (uint32_t g = 0; g < kBlockGroups; g += 2) {
    pair_up(minimums[g], minimums[g + 1], tile.minimums[g / 2]);
    if (form == BlockForm::minimums) pair_up(scales[g], scales[g + 1], tile.scales[g / 2]);
  }
  if (form == BlockForm::minimums) return;
  for (uint32_t g = 0; g < kBlockGroups; ++g) pair_up(scales[g], scales[g], tile.scales[g]);
}

void q6_k_integer_scales(const uint8_t* b, BlockTile& tile) {
  halves(field(b, 208), tile.d);
  const auto* scales = reinterpret_cast<const int8_t*>(field(b, 192));
  for (uint32_t pair = 0; pair < 8; ++pair)
    pair_up(scales + 2 * pair * kTileRows, scales + (2 * pair + 1) * kTileRows, tile.scales[pair]);
}

void q3_k_integer_scales(const uint8_t* b, BlockTile& tile) {
  halves(field(b, 108), tile.d);
  for (uint32_t pair = 0; pair < 8; ++pair) {
    int8_t even[kTileRows], odd[kTileRows];
    q3_k_scales(b, 2 * pair, even);
    q3_k_scales(b, 2 * pair + 1, odd);
    pair_up(even, odd, tile.scales[pair]);
  }
}

bool takes_blocks(CodeType type) {
  return type == CodeType::q4_k || type == CodeType::q5_k || type == CodeType::q6_k ||
         type == CodeType::q3_k;
}

void unpack_block(CodeType type, const WeightBlock& block, BlockTile& tile) {
  const uint8_t* b = block.data;
  switch (type) {
    case CodeType::q4_k:
      tile.form = BlockForm::minimums;
      q4_k_codes(b, 0, 16, tile.codes);
      return k4_integer_scales(b, tile.form, tile);
    case CodeType::q5_k:
      tile.form = BlockForm::wide_minimums;
      q5_k_codes(b, 0, tile.codes);
      return k4_integer_scales(b, tile.form, tile);
    case CodeType::q6_k:
      tile.form = BlockForm::offset_32;
      q6_k_codes(b, 0, tile.codes);
      return q6_k_integer_scales(b, tile);
    default:
      tile.form = BlockForm::offset_4;
      q3_k_codes(b, 0, tile.codes);
      return q3_k_integer_scales(b, tile);
  }
}

// Smallest step that a group's codes may have: 127 steps reach its largest value, and the codes of
// each half sum to at most kMostCodes even when all of them round away from zero (and a little
// less, for the rounding of this very division).
DLLM_INLINE float smallest_step(__m512 low, __m512 high) {
  const __m512 a = _mm512_abs_ps(low);
  const __m512 b = _mm512_abs_ps(high);
  const float largest = _mm512_reduce_max_ps(_mm512_max_ps(a, b));
  // Divided before they are added: sums of large values do not overflow.
  const __m512 share = _mm512_set1_ps(1.0f / (kMostCodes - 16 / 2 - 1));
  const float by_low = _mm512_reduce_add_ps(_mm512_mul_ps(a, share));
  const float by_high = _mm512_reduce_add_ps(_mm512_mul_ps(b, share));
  const float by_sum = by_low > by_high ? by_low : by_high;
  const float by_value = largest * (1.0f / 127.0f);
  return by_value > by_sum ? by_value : by_sum;
}

// False where one of 16 + 16 values is NaN or infinite.
DLLM_INLINE bool are_finite(__m512 low, __m512 high) {
  const __m512 most = _mm512_set1_ps(kMaxFinite);
  return (_mm512_cmp_ps_mask(_mm512_abs_ps(low), most, _CMP_NLE_UQ) |
          _mm512_cmp_ps_mask(_mm512_abs_ps(high), most, _CMP_NLE_UQ)) == 0;
}

// Codes of 16 values; returns their sum.
DLLM_INLINE int32_t quantise16(__m512 x, __m512 inverse, int8_t* codes) {
  const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));  // to nearest, ties to even
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm512_cvtepi32_epi8(q));
  return _mm512_reduce_add_epi32(q);
}

// Group sums as 16-bit numbers under one shift.
void store_sums(const int32_t (&sums)[kBlockGroups], ActivationBlock* out) {
  int32_t most = 0;
  for (const int32_t sum : sums) {
    const int32_t size = sum < 0 ? -sum : sum;
    most = size > most ? size : most;
  }
  // Rounded values stay in range: 65,533 + 1 halved, 2 x 1,023 x 64 + 2 quartered.
  const int32_t shift = most <= INT16_MAX ? 0 : most <= 65533 ? 1 : 2;
  for (uint32_t g = 0; g < kBlockGroups; ++g)
    out->sums[g] = static_cast<int16_t>((sums[g] + ((1 << shift) >> 1)) >> shift);
  out->sum_shift = shift;
}
static_assert((2 * kMostCodes * kMostMultiplier + 2) / 4 <= INT16_MAX);

void quantise_scaled_block(const float* x, uint64_t group_stride, ActivationBlock* out) {
  float steps[kBlockGroups];
  float widest = 0;
  bool finite = true;
  for (uint32_t g = 0; g < kBlockGroups; ++g) {
    const __m512 low = _mm512_loadu_ps(x + g * group_stride);
    const __m512 high = _mm512_loadu_ps(x + g * group_stride + 16);
    finite = finite && are_finite(low, high);
    steps[g] = smallest_step(low, high);
    widest = steps[g] > widest ? steps[g] : widest;
  }
  if (!finite || widest < kSmallestGroup) {  // the latter could not be told from rounding
    __builtin_memset(out, 0, sizeof *out);
    if (!finite) out->unit = __builtin_nanf("");
    return;
  }
  out->unit = widest * (1.0f / kMostMultiplier);
  int32_t sums[kBlockGroups];
  for (uint32_t g = 0; g < kBlockGroups; ++g) {
    const float ratio = steps[g] / out->unit;
    int32_t multiplier = static_cast<int32_t>(ratio);
    if (static_cast<float>(multiplier) < ratio) ++multiplier;
    if (multiplier > kMostMultiplier) multiplier = kMostMultiplier;
    const float step = out->unit * static_cast<float>(multiplier);
    const __m512 inverse = _mm512_set1_ps(multiplier == 0 ? 0.0f : 1.0f / step);
    int8_t* codes = out->codes + 32 * g;
    const int32_t low = quantise16(_mm512_loadu_ps(x + g * group_stride), inverse, codes);
    const int32_t high =
        quantise16(_mm512_loadu_ps(x + g * group_stride + 16), inverse, codes + 16);
    out->multipliers[g] = static_cast<int16_t>(multiplier);
    out->offsets[2 * g] = -32 * low;
    out->offsets[2 * g + 1] = -32 * high;
    sums[g] = multiplier * (low + high);
  }
  store_sums(sums, out);
}

constexpr BlockKernels kBlocks = {takes_blocks, quantise_scaled_block, unpack_block,
                                  multiply_blocks};

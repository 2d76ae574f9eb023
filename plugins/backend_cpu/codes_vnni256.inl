// multiply_codes in 256-bit vectors with VNNI: sums of unsigned codes times signed activations,
// four inputs a 32-bit lane (vpdpbusd). Included inside the unnamed namespace of
// kernels_avxvnni.cpp, and by a test whose processor has the instruction in its other encoding
// only; both define dot_add(sum, weights, activations) first.
//
// A register tile is kRows activation rows x kVectors vectors of eight weight rows. A sum starts
// from the bits of 1.5 * 2^23: an integer added to those is the float 1.5 * 2^23 + integer, so that
// conversion is one subtraction, which does not compete with vpdpbusd for a multiplier port.
// Exact while |sum| < 2^22; the largest is 32 * 127 * 255 = 1,036,320.
//
// Per element and group, ascending: scale product (of both halves first), then minimum * sum.

constexpr uint32_t kRowTile = 4;
constexpr int kVectors = 2;
constexpr int32_t kIntegerBits = 0x4B400000;   // of kIntegerOffset
constexpr float kIntegerOffset = 12582912.0f;  // 1.5 * 2^23

// keep_centring leaves -32 * (sum of a half's codes) as an integer in place of sum16: what makes
// the codes of Q6_K signed again.
constexpr int32_t kCentre = 32;

DLLM_INLINE int32_t centring(const ActivationGroup& a, int half) {
  int32_t word;
  __builtin_memcpy(&word, &a.sum16[half], sizeof word);
  return word;
}

DLLM_INLINE float half_sum(const ActivationGroup& a, int half) {
  return a.scale * static_cast<float>(centring(a, half) / -kCentre);
}

DLLM_INLINE __m256i broadcast4(const int8_t* from) {
  int32_t word;
  __builtin_memcpy(&word, from, 4);
  return _mm256_set1_epi32(word);
}

// Products of kSteps steps of four inputs, as floats.
template <int kRows, int kSteps, bool kCentred>
DLLM_INLINE void multiply_steps(const uint8_t* codes, const ActivationGroup* a, int part,
                                __m256 (&product)[kRows][kVectors]) {
  __m256i sum[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m256i start =
        _mm256_set1_epi32(kCentred ? kIntegerBits + centring(a[r], part) : kIntegerBits);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = start;
  }
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s) {
    __m256i w[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      w[v] =
          _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + s * kTileRows * 4 + 32 * v));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256i four = broadcast4(a[r].codes + 4 * (part * kSteps + s));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = dot_add(sum[r][v], w[v], four);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      product[r][v] = _mm256_sub_ps(_mm256_castsi256_ps(sum[r][v]), _mm256_set1_ps(kIntegerOffset));
}

template <int kRows>
DLLM_INLINE void multiply_group(const CodeTile& tile, uint32_t group, uint32_t lane,
                                const ActivationGroup* a, float* acc) {
  __m256 product[kRows][kVectors];
  multiply_steps<kRows, 8, false>(tile.codes[group * 8][lane], a, 0, product);
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m256 a_scale = _mm256_broadcast_ss(&a[r].scale);
    const __m256 a_sum = _mm256_broadcast_ss(&a[r].sum32);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = acc + r * kTileRows + 8 * v;
      const __m256 scale = _mm256_mul_ps(_mm256_load_ps(tile.scale[group] + lane + 8 * v), a_scale);
      const __m256 sum = _mm256_fmadd_ps(product[r][v], scale, _mm256_load_ps(to));
      _mm256_store_ps(
          to, _mm256_fmadd_ps(_mm256_load_ps(tile.minimum[group] + lane + 8 * v), a_sum, sum));
    }
  }
}

// A scale per half. kCentred: codes of 6 bits less 32, so there is no minimum.
template <int kRows, bool kCentred>
DLLM_INLINE void multiply_half_groups(const CodeTile& tile, uint32_t group, uint32_t lane,
                                      const ActivationGroup* a, float* acc) {
  alignas(32) float first[kRows][kVectors][8];
  __m256 product[kRows][kVectors];
  const float* scale = tile.scale[group * 2] + lane;
  const float* minimum = tile.minimum[group * 2] + lane;
  multiply_steps<kRows, 4, kCentred>(tile.codes[group * 8][lane], a, 0, product);
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      _mm256_store_ps(first[r][v], _mm256_mul_ps(product[r][v], _mm256_load_ps(scale + 8 * v)));
  multiply_steps<kRows, 4, kCentred>(tile.codes[group * 8 + 4][lane], a, 1, product);
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m256 a_scale = _mm256_broadcast_ss(&a[r].scale);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = acc + r * kTileRows + 8 * v;
      const __m256 both = _mm256_fmadd_ps(product[r][v], _mm256_load_ps(scale + kTileRows + 8 * v),
                                          _mm256_load_ps(first[r][v]));
      __m256 sum = _mm256_fmadd_ps(both, a_scale, _mm256_load_ps(to));
      if constexpr (!kCentred) {
        sum = _mm256_fmadd_ps(_mm256_load_ps(minimum + 8 * v), _mm256_set1_ps(half_sum(a[r], 0)),
                              sum);
        sum = _mm256_fmadd_ps(_mm256_load_ps(minimum + kTileRows + 8 * v),
                              _mm256_set1_ps(half_sum(a[r], 1)), sum);
      }
      _mm256_store_ps(to, sum);
    }
  }
}

enum class Groups { whole, halves, centred_halves };

template <int kRows, Groups kGroups>
DLLM_INLINE void multiply_rows(const CodeTile& tile, const ActivationGroup* panel, uint64_t stride,
                               uint32_t lane, float* acc) {
  for (uint32_t g = 0; g < tile.n_groups32; ++g) {
    const ActivationGroup* a = panel + g * stride;
    if constexpr (kGroups == Groups::whole)
      multiply_group<kRows>(tile, g, lane, a, acc);
    else
      multiply_half_groups<kRows, kGroups == Groups::centred_halves>(tile, g, lane, a, acc);
  }
}

template <Groups kGroups>
void multiply_block(const CodeTile& tile, const ActivationGroup* panel, uint32_t stride,
                    uint32_t n_rows, float* acc) {
  uint32_t r = 0;
  for (; r + kRowTile <= n_rows; r += kRowTile)
    for (uint32_t lane = 0; lane < kTileRows; lane += 8 * kVectors)
      multiply_rows<kRowTile, kGroups>(tile, panel + r, stride, lane, acc + r * kTileRows + lane);
  for (; r < n_rows; ++r)
    for (uint32_t lane = 0; lane < kTileRows; lane += 8 * kVectors)
      multiply_rows<1, kGroups>(tile, panel + r, stride, lane, acc + r * kTileRows + lane);
}

void multiply_codes(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                    uint32_t n_rows, float* acc) {
  const auto multiply = !tile.half_groups     ? multiply_block<Groups::whole>
                        : tile.code_bits == 6 ? multiply_block<Groups::centred_halves>
                                              : multiply_block<Groups::halves>;
  multiply(tile, panel, group_stride, n_rows, acc);
}

// vpdpbusd takes unsigned codes: signed ones get 128 added and a minimum of -128 scales.
void make_unsigned(CodeTile& tile) {
  const __m256i offset = _mm256_set1_epi8(static_cast<char>(0x80));
  for (uint32_t k = 0; k < tile.n_groups32 * 8; ++k)
    for (uint32_t row = 0; row < kTileRows; row += 8) {
      auto* codes = reinterpret_cast<__m256i*>(tile.codes[k][row]);
      _mm256_store_si256(codes, _mm256_xor_si256(_mm256_load_si256(codes), offset));
    }
  for (uint32_t g = 0; g < tile.n_groups32; ++g) scaled(tile.scale[g], -128.0f, tile.minimum[g]);
  tile.is_signed = false;
}

void unpack_codes(CodeType type, const WeightBlock& block, CodeTile& tile) {
  unpack_tile(type, block, tile);
  if (tile.is_signed) make_unsigned(tile);
}

// The integers of centring() in place of sum16.
void keep_centring(ActivationGroup* out) {
  int32_t sums[2] = {0, 0};
  for (uint32_t k = 0; k < kGroupCols; ++k) sums[k / 16] -= kCentre * out->codes[k];
  __builtin_memcpy(out->sum16, sums, sizeof sums);
}

// multiply_codes for AVX2. Included inside the unnamed namespace of kernels_avx2.cpp.
//
// A register tile is kRows activation rows x kVectors vectors of eight weight rows (lane = weight
// row, four inputs a lane), one sum of 16-bit lanes each. A step of four inputs loads kVectors
// weights and broadcasts kRows activations for kRows * kVectors vpmaddubsw and vpaddw. After a
// group the sums are widened by vpmaddwd, whose second operand is the group's integer scale where
// the type has one (w = row_scale * scale_code * code + minimum), so that the only f32 product of a
// group is the one with the activations' scale; row_scale comes in once per super-block.
//
// 16-bit sums hold two products a step, each at most 127 * the largest code:
//   4 bits  8 steps: 16 * 127 * 15 = 30,480
//   5 bits  4 steps:  8 * 127 * 31 = 31,496
//   6 bits  4 steps of (code - 32): 8 * 127 * 32 = 32,512. The sum of the unsigned codes is larger
//           and wraps, but taking 32 * (sum of activations) away brings it back: exact modulo 2^16.
//
// Per element: minimum * sum, groups ascending; the sum of the groups' scaled products, ascending;
// row_scale times that. Rows of the last, smaller tile take the same steps.

// How the products of a type are made.
enum class Minimums { none, groups, halves };
struct Recipe {
  int n_parts;         // partial sums of a group, each widened
  bool integer_scale;  // scale_codes and row_scale instead of scale
  bool half_groups;    // each part has a scale of its own
  bool centred;        // 6 bits
  Minimums minimums;
};

constexpr uint32_t kRowTile = 4;
constexpr int kVectors = 2;

// GCC would add the products of all steps as a tree, which keeps them all alive and spills.
DLLM_INLINE void keep_order(__m256i& sum) { asm("" : "+x"(sum)); }

DLLM_INLINE __m256i broadcast4(const void* from) {
  int32_t word;
  __builtin_memcpy(&word, from, 4);
  return _mm256_set1_epi32(word);
}

DLLM_INLINE __m256i load_codes(const void* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(from));
}

// What keep_pairs left instead of sum16: sums of codes 4k, 4k + 1 and of 4k + 2, 4k + 3.
DLLM_INLINE float half_sum(const ActivationGroup& a, int half) {
  int16_t pair[2];
  __builtin_memcpy(pair, &a.sum16[half], sizeof pair);
  return a.scale * static_cast<float>(pair[0] + pair[1]);
}

// acc += minimum * sum over the block's groups.
template <int kRows, bool kHalves>
DLLM_INLINE void add_minimums(const CodeTile& tile, const ActivationGroup* panel, uint64_t stride,
                              uint32_t lane, float* acc) {
  __m256 sum[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_load_ps(acc + r * kTileRows + 8 * v);
  const uint32_t n_groups = tile.n_groups32 * (kHalves ? 2 : 1);
  for (uint32_t g = 0; g < n_groups; ++g) {
    const ActivationGroup* a = panel + (kHalves ? g / 2 : g) * stride;
    const float* minimum = tile.minimum[g] + lane;
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256 total =
          kHalves ? _mm256_set1_ps(half_sum(a[r], g % 2)) : _mm256_broadcast_ss(&a[r].sum32);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm256_fmadd_ps(_mm256_load_ps(minimum + 8 * v), total, sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) _mm256_store_ps(acc + r * kTileRows + 8 * v, sum[r][v]);
}

// One part of a group: 16-bit sums of kSteps steps.
template <int kRows, int kSteps, bool kCentred>
DLLM_INLINE void add_steps(const uint8_t* codes, const ActivationGroup* a, int part,
                           __m256i (&sum)[kRows][kVectors]) {
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s) {
    __m256i w[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) w[v] = load_codes(codes + s * kTileRows * 4 + 32 * v);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i four = broadcast4(a[r].codes + 4 * (part * kSteps + s));
      __m256i start = _mm256_setzero_si256();  // used where it is set
      if (kCentred && s == 0) start = _mm256_slli_epi16(broadcast4(&a[r].sum16[part]), 5);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const __m256i product = _mm256_maddubs_epi16(w[v], four);
        if (s > 0)
          sum[r][v] = _mm256_add_epi16(sum[r][v], product);
        else
          sum[r][v] = kCentred ? _mm256_sub_epi16(product, start) : product;
        keep_order(sum[r][v]);
      }
    }
  }
}

// One group of 32 inputs: total += scale * product.
template <int kRows, Recipe kRecipe>
DLLM_INLINE void multiply_group(const CodeTile& tile, uint32_t group, uint32_t lane,
                                const ActivationGroup* a, float (*total)[kVectors][8]) {
  constexpr int kParts = kRecipe.n_parts;
  constexpr int kSteps = 8 / kParts;
  alignas(32) int32_t first_part[kRows][kVectors][8];
  const uint8_t* codes = tile.codes[group * 8][lane];
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    __m256i sum[kRows][kVectors];
    add_steps<kRows, kSteps, kRecipe.centred>(codes + part * kSteps * kTileRows * 4, a, part, sum);
    const uint32_t index = kRecipe.half_groups ? group * 2 + part : group;
    const int16_t* multiplier = tile.scale_codes[index][lane];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256 a_scale = _mm256_broadcast_ss(&a[r].scale);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        __m256i wide =
            _mm256_madd_epi16(sum[r][v], kRecipe.integer_scale ? load_codes(multiplier + 16 * v)
                                                               : _mm256_set1_epi16(1));
        auto* first = reinterpret_cast<__m256i*>(first_part[r][v]);
        if (part > 0) wide = _mm256_add_epi32(wide, _mm256_load_si256(first));
        if (part + 1 < kParts) {
          _mm256_store_si256(first, wide);
          continue;
        }
        __m256 factor = a_scale;
        if (!kRecipe.integer_scale)
          factor = _mm256_mul_ps(a_scale, _mm256_load_ps(tile.scale[group] + lane + 8 * v));
        float* to = total[r][v];
        _mm256_store_ps(to, _mm256_fmadd_ps(_mm256_cvtepi32_ps(wide), factor, _mm256_load_ps(to)));
      }
    }
  }
}

template <int kRows, Recipe kRecipe>
DLLM_INLINE void multiply_rows(const CodeTile& tile, const ActivationGroup* panel, uint64_t stride,
                               uint32_t lane, float* acc) {
  if constexpr (kRecipe.minimums != Minimums::none)
    add_minimums<kRows, kRecipe.minimums == Minimums::halves>(tile, panel, stride, lane, acc);
  alignas(32) float total[kRows][kVectors][8];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) _mm256_store_ps(total[r][v], _mm256_setzero_ps());
  for (uint32_t g = 0; g < tile.n_groups32; ++g)
    multiply_group<kRows, kRecipe>(tile, g, lane, panel + g * stride, total);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = acc + r * kTileRows + 8 * v;
      const __m256 factor =
          kRecipe.integer_scale ? _mm256_load_ps(tile.row_scale + lane + 8 * v) : _mm256_set1_ps(1);
      _mm256_store_ps(to, _mm256_fmadd_ps(_mm256_load_ps(total[r][v]), factor, _mm256_load_ps(to)));
    }
}

template <Recipe kRecipe>
void multiply_block(const CodeTile& tile, const ActivationGroup* panel, uint32_t stride,
                    uint32_t n_rows, float* acc) {
  uint32_t r = 0;
  for (; r + kRowTile <= n_rows; r += kRowTile)
    for (uint32_t lane = 0; lane < kTileRows; lane += 8 * kVectors)
      multiply_rows<kRowTile, kRecipe>(tile, panel + r, stride, lane, acc + r * kTileRows + lane);
  for (; r < n_rows; ++r)
    for (uint32_t lane = 0; lane < kTileRows; lane += 8 * kVectors)
      multiply_rows<1, kRecipe>(tile, panel + r, stride, lane, acc + r * kTileRows + lane);
}

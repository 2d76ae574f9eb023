// Row-wise arithmetic: one source, compiled by each instruction set's file to its own width.
// Included inside the unnamed namespace of a kernels_*.cpp; what it exports is kRowMath.
// Every reduction has a fixed shape, so a row's result never depends on anything but the row.

constexpr float kMaxFinite = 3.4028234663852886e38f;
// Below this a group is all zeros: its products could not be told from rounding.
constexpr float kSmallestGroup = 1e-30f;

namespace row_math {

#include "lanes.inl"

void exponentials(float* x, uint32_t n) {
  for (uint32_t i = 0; i < n; i += kLanes) store_at(x, i, n, exponential(load_at(x, i, n, 0)));
}

float norm_factor(const float* x, uint32_t n, float eps) {
  D squares[2] = {zero_wide(), zero_wide()};
  uint32_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes)
#pragma GCC unroll 2
    for (uint32_t j = 0; j < 2; ++j) {
      const D v = widen(load(x + i + j * kLanes));
      squares[j] = add_product(squares[j], v, v);
    }
  for (; i < n; i += kLanes) {
    const D v = widen(load_at(x, i, n, 0));
    squares[0] = add_product(squares[0], v, v);
  }
  const double sum = sum_lanes(add_wide(squares[0], squares[1]));
  return static_cast<float>(1.0 / __builtin_sqrt(sum / n + static_cast<double>(eps)));
}

void normalise(const float* x, const float* weight, uint32_t n, float eps, float* out) {
  const F factor = splat(norm_factor(x, n, eps));
  for (uint32_t i = 0; i < n; i += kLanes)
    store_at(out, i, n, load_at(x, i, n, 0) * factor * load_at(weight, i, n, 0));
}

constexpr uint32_t kParts = kGroupCols / kLanes;  // vectors of a group

// codes = v * inverse, to nearest, ties to even; sums of the halves.
#if defined(__AVX2__)
DLLM_LANES void add_codes(__m256i codes, int32_t* sums) {
  // Sums of eight unsigned bytes at a time: codes + 128.
  const __m256i shifted = _mm256_xor_si256(codes, _mm256_set1_epi8(static_cast<char>(0x80)));
  const __m256i eights = _mm256_sad_epu8(shifted, _mm256_setzero_si256());
  const __m256i halves = _mm256_add_epi32(eights, _mm256_bsrli_epi128(eights, 8));
  sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(halves)) - 16 * 128;
  sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(halves, 1)) - 16 * 128;
}
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__)
DLLM_LANES void round_codes(const F* v, float inverse, int8_t* codes, int32_t* sums) {
  const __m128i low = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v[0] * inverse));
  const __m128i high = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v[1] * inverse));
  const __m256i all_codes = _mm256_set_m128i(high, low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), all_codes);
  add_codes(all_codes, sums);
}
#elif defined(__AVX2__)
DLLM_LANES void round_codes(const F* v, float inverse, int8_t* codes, int32_t* sums) {
  __m256i words[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) words[i] = _mm256_cvtps_epi32(v[i] * inverse);
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(words[0], words[1]),
                                           _mm256_packs_epi32(words[2], words[3]));
  // Packing works within halves: four bytes of each vector, twice.
  const __m256i all_codes =
      _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), all_codes);
  add_codes(all_codes, sums);
}
#else
DLLM_LANES void round_codes(const F* v, float inverse, int8_t* codes, int32_t* sums) {
  for (uint32_t i = 0; i < kGroupCols; ++i) {
    const F rounded = round(v[i / kLanes] * inverse);
    codes[i] = static_cast<int8_t>(rounded[i % kLanes]);
    sums[i / 16] += codes[i];
  }
}
#endif

DLLM_LANES void quantise_group(const F* v, ActivationGroup* out) {
  F largest = splat(0);
  M finite = at_most(absolute(v[0]), kMaxFinite);
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kParts; ++i) {
    const F size = absolute(v[i]);
    finite = both(finite, at_most(size, kMaxFinite));
    largest = larger(size, largest);
  }
  const float amax = largest_lane(largest);
  int32_t sums[2] = {};
  if (all(finite) && amax >= kSmallestGroup) {
    out->scale = amax * (1.0f / 127.0f);
    round_codes(v, 127.0f / amax, out->codes, sums);
  } else {
    out->scale = all(finite) ? 0.0f : __builtin_nanf("");
    __builtin_memset(out->codes, 0, sizeof out->codes);
  }
  out->sum16[0] = out->scale * static_cast<float>(sums[0]);
  out->sum16[1] = out->scale * static_cast<float>(sums[1]);
  out->sum32 = out->scale * static_cast<float>(sums[0] + sums[1]);
}

void quantise(const QuantiseRows& in, ActivationGroup* out, uint64_t group_stride) {
  for (uint32_t g = 0; g < in.n_groups; ++g) {
    const uint64_t first = static_cast<uint64_t>(g) * kGroupCols;
    for (uint32_t r = 0; r < in.n_rows; ++r) {
      const float* x = in.x + r * in.stride + first;
      F v[kParts];
#pragma GCC unroll 4
      for (uint32_t i = 0; i < kParts; ++i) {
        v[i] = load(x + i * kLanes);
        if (in.weight) v[i] = v[i] * in.factors[r] * load(in.weight + first + i * kLanes);
      }
      quantise_group(v, out + g * group_stride + r);
    }
  }
}

void silu_multiply(const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += kLanes) {
    const F g = load_at(gate, i, n, 0);
    const F y = g / (1.0f + exponential(-g)) * load_at(up, i, n, 0);
    store_at(out, i, n, y);
  }
}

void rotate_pairs(float* row, uint32_t n_heads, uint32_t head_dim, const float* table,
                  uint32_t n_rot) {
  for (uint32_t h = 0; h < n_heads; ++h, row += head_dim)
    for (uint32_t i = 0; i < n_rot; i += kLanes) {
      const F x = load_at(row, i, n_rot, 0);
      const F turned = swap_neighbours(x) * load_at(table + n_rot, i, n_rot, 0);
      store_at(row, i, n_rot, fused(x, load_at(table, i, n_rot, 0), turned));
    }
}

void rotate_halves(float* row, uint32_t n_heads, uint32_t head_dim, const float* table,
                   uint32_t n_rot) {
  const uint32_t n = n_rot / 2;
  for (uint32_t h = 0; h < n_heads; ++h, row += head_dim)
    for (uint32_t i = 0; i < n; i += kLanes) {
      const F a = load_at(row, i, n, 0);
      const F b = load_at(row + n, i, n, 0);
      const F cosine = load_at(table, i, n, 0);
      const F sine = load_at(table + n, i, n, 0);
      store_at(row, i, n, a * cosine - b * sine);
      store_at(row + n, i, n, a * sine + b * cosine);
    }
}

Extent extent(const float* x, uint32_t n) {
  F largest = splat(-kInfinity);
  F second = largest;  // lane by lane, the second largest
  M good = at_most(largest, kMaxFinite);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const F v = load_at(x, i, n, -kInfinity);
    good = both(good, at_most(v, kMaxFinite));
    second = larger(smaller(v, largest), second);
    largest = larger(v, largest);
  }
  const float max = largest_lane(largest);
  const uint32_t tops = equal_lanes(largest, max);
  if ((tops & (tops - 1)) == 0)  // one lane has it: the others' largest may come second
    second = larger(replace_equal(largest, max, -kInfinity), second);
  else
    second = largest;
  return {max, largest_lane(second), !all(good)};
}

ExpSums exp_sums(const float* x, uint32_t n, float max, float inverse_temperature) {
  constexpr uint32_t kAtOnce = 4;  // vectors added in f32 before they are widened
  D sum = zero_wide();
  D weighted = zero_wide();
  for (uint32_t i = 0; i < n; i += kAtOnce * kLanes) {
    F e[kAtOnce], product[kAtOnce];
#pragma GCC unroll 4
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t at = i + j * kLanes;
      const F l = at < n ? load_at(x, at, n, -kInfinity) : splat(-kInfinity);
      // e^-200 counts as 0; keeps -inf * 0 out of the products.
      const F d = larger(splat(-200.0f), (l - max) * inverse_temperature);
      e[j] = exponential(d);
      product[j] = e[j] * d;
    }
    sum = add_wide(sum, widen((e[0] + e[1]) + (e[2] + e[3])));
    weighted = add_wide(weighted, widen((product[0] + product[1]) + (product[2] + product[3])));
  }
  return {sum_lanes(sum), sum_lanes(weighted)};
}

uint32_t index_of(const float* x, uint32_t n, float value) {
  for (uint32_t i = 0; i < n; i += kLanes) {
    const uint32_t lanes = equal_lanes(load_at(x, i, n, __builtin_nanf("")), value);
    if (lanes != 0) return i + static_cast<uint32_t>(__builtin_ctz(lanes));
  }
  return n;
}

#include "attention_math.inl"
#include "floats.inl"
#include "noise.inl"

constexpr RowMath kTable = {norm_factor,  normalise,     quantise,     silu_multiply,
                            rotate_pairs, rotate_halves, exponentials, extent,
                            exp_sums,     index_of,      may_win,      kAttention};

#undef DLLM_LANES

}  // namespace row_math

constexpr RowMath kRowMath = row_math::kTable;

// kRowMath for a table that keeps other sums than sum16 in a group: kKeep puts them there.
template <void (*kKeep)(ActivationGroup*)>
void quantise_keeping(const QuantiseRows& in, ActivationGroup* out, uint64_t group_stride) {
  row_math::quantise(in, out, group_stride);
  for (uint32_t g = 0; g < in.n_groups; ++g)
    for (uint32_t r = 0; r < in.n_rows; ++r) kKeep(out + g * group_stride + r);
}
template <void (*kKeep)(ActivationGroup*)>
constexpr RowMath row_math_keeping() {
  RowMath rows = kRowMath;
  rows.quantise = quantise_keeping<kKeep>;
  return rows;
}

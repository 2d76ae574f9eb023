// A vector of floats as wide as the instruction set that includes this, and the few operations
// row_math.inl and attention_math.inl are written in: first for AVX-512, then AVX2, then any
// processor. Arithmetic operators work on F everywhere; what has no operator is a function below.
//
// larger and smaller return b where a or b is NaN. M is a mask, one answer a lane.

#define DLLM_LANES inline __attribute__((always_inline))

#if defined(__AVX512F__) && defined(__AVX512DQ__)

constexpr uint32_t kLanes = 16;
typedef __m512 F;

DLLM_LANES F load(const float* p) { return _mm512_loadu_ps(p); }
DLLM_LANES void store(float* p, F v) { _mm512_storeu_ps(p, v); }
DLLM_LANES F splat(float x) { return _mm512_set1_ps(x); }
DLLM_LANES __mmask16 first(uint32_t n) { return static_cast<__mmask16>((1u << n) - 1); }
DLLM_LANES F load_part(const float* p, uint32_t n, float fill) {
  return _mm512_mask_loadu_ps(splat(fill), first(n), p);
}
DLLM_LANES void store_part(float* p, uint32_t n, F v) { _mm512_mask_storeu_ps(p, first(n), v); }
DLLM_LANES F larger(F a, F b) { return _mm512_max_ps(a, b); }
DLLM_LANES F smaller(F a, F b) { return _mm512_min_ps(a, b); }
DLLM_LANES F fused(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
DLLM_LANES F absolute(F v) { return _mm512_abs_ps(v); }
DLLM_LANES F round(F v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
DLLM_LANES F power_of_two(F p, F n) { return _mm512_scalef_ps(p, n); }
DLLM_LANES F zero_below(F v, F x, float limit) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, splat(limit), _CMP_NLT_UQ), v);
}
typedef __mmask16 M;
constexpr M kAll = 0xFFFF;
DLLM_LANES M at_most(F v, float limit) { return _mm512_cmp_ps_mask(v, splat(limit), _CMP_LE_OQ); }
DLLM_LANES M both(M a, M b) { return a & b; }
DLLM_LANES bool all(M m) { return m == kAll; }
DLLM_LANES uint32_t equal_lanes(F v, float x) {
  return _mm512_cmp_ps_mask(v, splat(x), _CMP_EQ_OQ);
}
DLLM_LANES F replace_equal(F v, float x, float by) {
  return _mm512_mask_mov_ps(v, static_cast<__mmask16>(equal_lanes(v, x)), splat(by));
}
DLLM_LANES float largest_lane(F v) { return _mm512_reduce_max_ps(v); }
DLLM_LANES float sum_lanes(F v) { return _mm512_reduce_add_ps(v); }
// (v1, v0, v3, v2, ...).
DLLM_LANES F swap_neighbours(F v) { return _mm512_permute_ps(v, 0xB1); }

struct D {
  __m512d low, high;
};
DLLM_LANES D zero_wide() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
DLLM_LANES D widen(F v) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(v)),
          _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))};
}
DLLM_LANES D add_product(D a, D b, D c) {  // a + b c
  return {_mm512_fmadd_pd(b.low, c.low, a.low), _mm512_fmadd_pd(b.high, c.high, a.high)};
}
DLLM_LANES double sum_lanes(D v) { return _mm512_reduce_add_pd(_mm512_add_pd(v.low, v.high)); }

#elif defined(__AVX2__)

constexpr uint32_t kLanes = 8;
typedef __m256 F;

DLLM_LANES F load(const float* p) { return _mm256_loadu_ps(p); }
DLLM_LANES void store(float* p, F v) { _mm256_storeu_ps(p, v); }
DLLM_LANES F splat(float x) { return _mm256_set1_ps(x); }
DLLM_LANES __m256i first(uint32_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)), lane);
}
DLLM_LANES F load_part(const float* p, uint32_t n, float fill) {
  const __m256i mask = first(n);
  return _mm256_blendv_ps(splat(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}
DLLM_LANES void store_part(float* p, uint32_t n, F v) { _mm256_maskstore_ps(p, first(n), v); }
DLLM_LANES F larger(F a, F b) { return _mm256_max_ps(a, b); }
DLLM_LANES F smaller(F a, F b) { return _mm256_min_ps(a, b); }
DLLM_LANES F fused(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
DLLM_LANES F absolute(F v) { return _mm256_andnot_ps(splat(-0.0f), v); }
DLLM_LANES F round(F v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
DLLM_LANES F power_of_two(F p, F n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}
DLLM_LANES F zero_below(F v, F x, float limit) {
  return _mm256_and_ps(_mm256_cmp_ps(x, splat(limit), _CMP_NLT_UQ), v);
}
typedef __m256i M;
DLLM_LANES M at_most(F v, float limit) {
  return _mm256_castps_si256(_mm256_cmp_ps(v, splat(limit), _CMP_LE_OQ));
}
DLLM_LANES M both(M a, M b) { return _mm256_and_si256(a, b); }
DLLM_LANES bool all(M m) { return _mm256_movemask_ps(_mm256_castsi256_ps(m)) == 0xFF; }
DLLM_LANES uint32_t equal_lanes(F v, float x) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, splat(x), _CMP_EQ_OQ)));
}
DLLM_LANES F replace_equal(F v, float x, float by) {
  return _mm256_blendv_ps(v, splat(by), _mm256_cmp_ps(v, splat(x), _CMP_EQ_OQ));
}
DLLM_LANES float largest_lane(F v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
DLLM_LANES float sum_lanes(F v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
DLLM_LANES F swap_neighbours(F v) { return _mm256_permute_ps(v, 0xB1); }

struct D {
  __m256d low, high;
};
DLLM_LANES D zero_wide() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
DLLM_LANES D widen(F v) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))};
}
DLLM_LANES D add_product(D a, D b, D c) {
  return {_mm256_fmadd_pd(b.low, c.low, a.low), _mm256_fmadd_pd(b.high, c.high, a.high)};
}
DLLM_LANES double sum_lanes(D v) {
  const __m256d s = v.low + v.high;
  return (s[0] + s[2]) + (s[1] + s[3]);
}

#else  // GCC's vector types: any processor

constexpr uint32_t kLanes = 8;
typedef float F __attribute__((vector_size(32)));
typedef int32_t I __attribute__((vector_size(32)));
typedef double D4 __attribute__((vector_size(32)));

DLLM_LANES F load(const float* p) {
  F v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
DLLM_LANES void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof v); }
DLLM_LANES F splat(float x) { return F{} + x; }
DLLM_LANES F load_part(const float* p, uint32_t n, float fill) {
  F v = splat(fill);
  for (uint32_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
DLLM_LANES void store_part(float* p, uint32_t n, F v) {
  for (uint32_t i = 0; i < n; ++i) p[i] = v[i];
}
DLLM_LANES F larger(F a, F b) { return a > b ? a : b; }
DLLM_LANES F smaller(F a, F b) { return a < b ? a : b; }
DLLM_LANES F fused(F a, F b, F c) { return a * b + c; }
DLLM_LANES F absolute(F v) { return reinterpret_cast<F>(reinterpret_cast<I>(v) & 0x7FFFFFFF); }
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, ties to even
DLLM_LANES F round(F v) { return (v + kRounder) - kRounder; }
DLLM_LANES F power_of_two(F p, F n) {
  const I exponent = reinterpret_cast<I>(n + kRounder) - 0x4B400000;
  return p * reinterpret_cast<F>((exponent + 127) << 23);
}
DLLM_LANES F zero_below(F v, F x, float limit) { return x < splat(limit) ? F{} : v; }
typedef I M;
DLLM_LANES M at_most(F v, float limit) { return v <= splat(limit); }
DLLM_LANES M both(M a, M b) { return a & b; }
DLLM_LANES bool all(M m) {
  int32_t every = -1;
  for (uint32_t i = 0; i < kLanes; ++i) every &= m[i];
  return every != 0;
}
DLLM_LANES uint32_t equal_lanes(F v, float x) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(v[i] == x) << i;
  return mask;
}
DLLM_LANES F replace_equal(F v, float x, float by) { return v == splat(x) ? splat(by) : v; }
DLLM_LANES float largest_lane(F v) {
  float m = v[0];
  for (uint32_t i = 1; i < kLanes; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
DLLM_LANES float sum_lanes(F v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
DLLM_LANES F swap_neighbours(F v) { return __builtin_shuffle(v, I{1, 0, 3, 2, 5, 4, 7, 6}); }

struct D {
  D4 low, high;
};
DLLM_LANES D zero_wide() { return {D4{}, D4{}}; }
DLLM_LANES D widen(F v) { return {D4{v[0], v[1], v[2], v[3]}, D4{v[4], v[5], v[6], v[7]}}; }
DLLM_LANES D add_product(D a, D b, D c) {
  return {a.low + b.low * c.low, a.high + b.high * c.high};
}
DLLM_LANES double sum_lanes(D v) {
  const D4 s = v.low + v.high;
  return (s[0] + s[2]) + (s[1] + s[3]);
}

#endif

// a + v in double, lane by lane.
DLLM_LANES D add_wide(D a, D v) { return {a.low + v.low, a.high + v.high}; }

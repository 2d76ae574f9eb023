// Products of f32 weights and activations, one source for every vector width. Included by
// row_math.inl, after vector.inl.
//
// A register tile is kFloatRows activation rows x two vectors of weight rows (lane = weight row):
// per input two loads of weights and a broadcast per row for twice as many multiply-adds. Sums of
// 16 inputs are formed on their own and added up to kFloatCols, those to the accumulator: three
// short sums err less than one long one (by about a fifth of its error at 4096 inputs).

constexpr uint32_t kFloatRows = 6;
constexpr uint32_t kFloatVectors = 2;
constexpr uint32_t kFloatStretch = 16;

// sum = products of inputs [0, n_k) of kRows rows, which are kGroupCols apart.
template <uint32_t kRows>
DLLM_LANES void multiply_stretch(const float* weights, const float* values, uint32_t n_k,
                                 F (&sum)[kRows][kFloatVectors]) {
  for (uint32_t k = 0; k < n_k; ++k) {
    F w[kFloatVectors];
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kFloatVectors; ++v) w[v] = load(weights + k * kTileRows + v * kLanes);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const F value = splat(values[r * kGroupCols + k]);
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kFloatVectors; ++v) sum[r][v] = fused(value, w[v], sum[r][v]);
    }
  }
}

// acc[r * kTileRows + lane] += products of inputs [0, n_k), n_k <= kFloatCols.
template <uint32_t kRows>
DLLM_LANES void multiply_float_rows(const float* weights, const float* values, uint64_t stride,
                                    uint32_t n_k, float* acc) {
  F part[kRows][kFloatVectors];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kFloatVectors; ++v) part[r][v] = splat(0);
  for (uint32_t k = 0; k < n_k; k += kFloatStretch) {
    const uint32_t left = n_k - k;
    const float* from = values + k / kGroupCols * stride + k % kGroupCols;
    F sum[kRows][kFloatVectors];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kFloatVectors; ++v) sum[r][v] = splat(0);
    if (left >= kFloatStretch) {
      multiply_stretch<kRows>(weights + k * kTileRows, from, kFloatStretch, sum);
    } else {
      multiply_stretch<kRows>(weights + k * kTileRows, from, left, sum);
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kFloatVectors; ++v) part[r][v] = part[r][v] + sum[r][v];
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kFloatVectors; ++v) {
      float* at = acc + r * kTileRows + v * kLanes;
      store(at, load(at) + part[r][v]);
    }
}

void multiply_floats(const float* weights, uint32_t n_k, const float* values, uint64_t group_stride,
                     uint32_t n_rows, float* acc) {
  const uint64_t stride = group_stride * kGroupCols;
  for (uint32_t lane = 0; lane < kTileRows; lane += kFloatVectors * kLanes) {
    uint32_t r = 0;
    for (; r + kFloatRows <= n_rows; r += kFloatRows)
      multiply_float_rows<kFloatRows>(weights + lane, values + r * kGroupCols, stride, n_k,
                                      acc + r * kTileRows + lane);
    for (; r < n_rows; ++r)
      multiply_float_rows<1>(weights + lane, values + r * kGroupCols, stride, n_k,
                             acc + r * kTileRows + lane);
  }
}

#if defined(__AVX512F__) && defined(__AVX512DQ__)
DLLM_LANES F widen_halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
DLLM_LANES F widen_brains(const uint8_t* p) {
  const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
}
#elif defined(__AVX2__)
DLLM_LANES F widen_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
DLLM_LANES F widen_brains(const uint8_t* p) {
  const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
}
#else
F widen_halves(const uint8_t* p) {
  F v;
  for (uint32_t i = 0; i < kLanes; ++i) v[i] = half_to_float(p + 2 * i);
  return v;
}
F widen_brains(const uint8_t* p) {
  I bits;
  for (uint32_t i = 0; i < kLanes; ++i) {
    uint16_t upper;
    __builtin_memcpy(&upper, p + 2 * i, 2);
    bits[i] = static_cast<int32_t>(uint32_t{upper} << 16);
  }
  return reinterpret_cast<F>(bits);
}
#endif

void widen_floats(FloatType type, const uint8_t* from, uint32_t n, float* to) {
  if (type == FloatType::f16) {
    for (uint32_t i = 0; i < n; i += kLanes) store(to + i, widen_halves(from + 2 * i));
  } else {
    for (uint32_t i = 0; i < n; i += kLanes) store(to + i, widen_brains(from + 2 * i));
  }
}

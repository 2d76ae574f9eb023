// f32 as a sum of two BF16 values, x = high + low: high is x rounded to BF16, low what is missing,
// rounded too. |x - high - low| <= 2^-17 |x|, and a product that leaves low * low out is off by at
// most 2^-15 of itself (2^-16 from low * low, 2^-17 from each operand's rest).
// NaN and infinity stay visible: high keeps them, and an infinity's low is NaN.

typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

DLLM_LANES F as_floats(Words w) { return reinterpret_cast<F>(w); }

#if defined(__AVX512BF16__)
DLLM_LANES Halves rounded_halves(F x) { return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(x)); }
DLLM_LANES Words widened(Halves h) {
  return reinterpret_cast<Words>(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(h)), 16));
}
#else
// To nearest, ties to even; the payload of a NaN keeps a bit.
DLLM_LANES Halves rounded_halves(F x) {
  const Words bits = reinterpret_cast<Words>(x);
  const Words nearest = bits + 0x7FFFu + (bits >> 16 & 1u);
  const Words is_nan = reinterpret_cast<Words>((bits & 0x7FFFFFFFu) > 0x7F800000u);
  const Words chosen = (is_nan & (bits | 0x400000u)) | (~is_nan & nearest);
  return __builtin_convertvector(chosen >> 16, Halves);
}
DLLM_LANES Words widened(Halves h) { return __builtin_convertvector(h, Words) << 16; }
#endif

struct BrainParts {
  Halves high;
  Halves low;
};
DLLM_LANES BrainParts parts_of(F x) {
  const Halves high = rounded_halves(x);
  return {high, rounded_halves(x - as_floats(widened(high)))};
}

// kLanes values of a row.
DLLM_LANES void store_parts(F x, uint16_t* high, uint16_t* low) {
  const BrainParts parts = parts_of(x);
  __builtin_memcpy(high, &parts.high, sizeof parts.high);
  __builtin_memcpy(low, &parts.low, sizeof parts.low);
}

// The same of 32 values below 2^111, 64-byte aligned: x 65537 - (x 65537 - x) is x rounded to 8
// bits (Veltkamp), with no way to BF16 and back.
DLLM_LANES void store_bounded_parts(const F* x, uint16_t* high, uint16_t* low) {
  constexpr uint32_t kVectors = 32 / kLanes;
  F rounded[kVectors], rest[kVectors];
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kVectors; ++i) {
    const F wide = x[i] * 65537.0f;
    rounded[i] = wide - (wide - x[i]);
    rest[i] = x[i] - rounded[i];
  }
#if defined(__AVX512BF16__)
  _mm512_store_si512(high, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(rounded[1], rounded[0])));
  _mm512_store_si512(low, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(rest[1], rest[0])));
#else
  for (uint32_t i = 0; i < kVectors; ++i) {
    const Halves parts[2] = {rounded_halves(rounded[i]), rounded_halves(rest[i])};
    __builtin_memcpy(high + i * kLanes, &parts[0], sizeof parts[0]);
    __builtin_memcpy(low + i * kLanes, &parts[1], sizeof parts[1]);
  }
#endif
}

// (even[i], odd[i]) side by side, even first, for kLanes columns.
DLLM_LANES void store_pairs(Halves even, Halves odd, uint16_t* to) {
  const Words pairs = widened(even) >> 16 | widened(odd);
  __builtin_memcpy(to, &pairs, sizeof pairs);
}

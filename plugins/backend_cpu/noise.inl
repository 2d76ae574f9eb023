// may_win: which of 64 ids can still win a Gumbel draw. Part of row_math.inl.
//
// An id wins with z + g > best, g = -ln(-ln u), that is where -ln u < e^(z - best). As
// -ln u >= 1 - u, it has lost where 1 - u >= e^(z - best): no logarithm is needed to see that, and
// the few ids that remain are compared exactly by the caller. Everything here is times 2^32:
// 1 - u = (~word + 0.5) / 2^32, and `offset` holds ln 2^32 and the slack for roundings.

DLLM_LANES F lose_limit(const float* logits, float inverse_temperature, float offset) {
  return exponential(fused(load(logits), splat(inverse_temperature), splat(offset)));
}
constexpr float kSmallestRest = 0.49f;  // below ~word + 0.5

#if defined(__AVX512F__) && defined(__AVX512DQ__)

// Philox4x32-10 (dllm_sdk/philox.h) for eight counters, one per 64-bit lane; what is above a word
// in its lane means nothing. low, high: words of 32 ids, four per counter; 16 ids are in order if
// the counters are.
DLLM_LANES void philox(const DrawKey& key, __m512i block, __m512i* low, __m512i* high) {
  const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
  __m512i c0 = _mm512_set1_epi64(key.step), c1 = _mm512_set1_epi64(key.position);
  __m512i c2 = block, c3 = _mm512_set1_epi64(key.purpose);
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const __m512i p0 = _mm512_mul_epu32(c0, m0);
    const __m512i p1 = _mm512_mul_epu32(c2, m1);
    c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1, _mm512_set1_epi64(k0), 0x96);
    c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3, _mm512_set1_epi64(k1), 0x96);
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const __m512i first_two = _mm512_mask_blend_epi32(0xAAAA, c0, _mm512_slli_epi64(c1, 32));
  const __m512i last_two = _mm512_mask_blend_epi32(0xAAAA, c2, _mm512_slli_epi64(c3, 32));
  *low = _mm512_unpacklo_epi64(first_two, last_two);
  *high = _mm512_unpackhi_epi64(first_two, last_two);
}

DLLM_LANES uint64_t not_lost(__m512i words, F limit) {
  const F rest = _mm512_cvtepu32_ps(_mm512_ternarylogic_epi32(words, words, words, 0x0F));  // ~
  return _mm512_cmp_ps_mask(rest, limit, _CMP_NGE_UQ);
}

uint64_t may_win(const DrawKey& key, uint32_t first_id, const float* logits,
                 float inverse_temperature, float offset) {
  uint64_t mask = 0;
#pragma GCC unroll 2
  for (uint32_t half = 0; half < 2; ++half) {
    const F first = lose_limit(logits + 32 * half, inverse_temperature, offset);
    const F second = lose_limit(logits + 32 * half + 16, inverse_temperature, offset);
    if (all(both(at_most(first, kSmallestRest), at_most(second, kSmallestRest)))) continue;
    const __m512i block = _mm512_add_epi64(_mm512_set1_epi64(first_id / 4 + 8 * half),
                                           _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
    __m512i low, high;
    philox(key, block, &low, &high);
    mask |= (not_lost(low, first) | not_lost(high, second) << 16) << (32 * half);
  }
  return mask;
}

#elif defined(__AVX2__)

// The same for four counters and 16 ids.
DLLM_LANES void philox(const DrawKey& key, __m256i block, __m256i* low, __m256i* high) {
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i c0 = _mm256_set1_epi64x(key.step), c1 = _mm256_set1_epi64x(key.position);
  __m256i c2 = block, c3 = _mm256_set1_epi64x(key.purpose);
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const __m256i p0 = _mm256_mul_epu32(c0, m0);
    const __m256i p1 = _mm256_mul_epu32(c2, m1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), _mm256_set1_epi64x(k0));
    c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), _mm256_set1_epi64x(k1));
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const __m256i first_two = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA);
  const __m256i last_two = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);
  *low = _mm256_unpacklo_epi64(first_two, last_two);
  *high = _mm256_unpackhi_epi64(first_two, last_two);
}

// Without the lowest bit, which a signed conversion has no room for: never above ~word.
DLLM_LANES uint64_t not_lost(__m256i words, F limit) {
  const __m256i inverted = _mm256_xor_si256(words, _mm256_set1_epi32(-1));
  const F rest = _mm256_cvtepi32_ps(_mm256_srli_epi32(inverted, 1)) * 2.0f;
  return static_cast<uint64_t>(_mm256_movemask_ps(_mm256_cmp_ps(rest, limit, _CMP_NGE_UQ)));
}

uint64_t may_win(const DrawKey& key, uint32_t first_id, const float* logits,
                 float inverse_temperature, float offset) {
  uint64_t mask = 0;
  for (uint32_t part = 0; part < 4; ++part) {
    const F first = lose_limit(logits + 16 * part, inverse_temperature, offset);
    const F second = lose_limit(logits + 16 * part + 8, inverse_temperature, offset);
    if (all(both(at_most(first, kSmallestRest), at_most(second, kSmallestRest)))) continue;
    const __m256i block = _mm256_add_epi64(_mm256_set1_epi64x(first_id / 4 + 4 * part),
                                           _mm256_setr_epi64x(0, 2, 1, 3));
    __m256i low, high;
    philox(key, block, &low, &high);
    mask |= (not_lost(low, first) | not_lost(high, second) << 8) << (16 * part);
  }
  return mask;
}

#else

uint64_t may_win(const DrawKey& key, uint32_t first_id, const float* logits,
                 float inverse_temperature, float offset) {
  uint64_t mask = 0;
  for (uint32_t i = 0; i < 64; i += kLanes) {
    float limits[kLanes];
    const F limit = lose_limit(logits + i, inverse_temperature, offset);
    if (all(at_most(limit, kSmallestRest))) continue;
    store(limits, limit);
    for (uint32_t j = 0; j < kLanes; ++j) {
      if (limits[j] <= kSmallestRest) continue;
      uint32_t words[4];
      dllm_philox4x32(key.seed, key.step, key.position, (first_id + i + j) / 4, key.purpose, words);
      const bool lost = static_cast<float>(~words[j % 4]) >= limits[j];
      mask |= static_cast<uint64_t>(!lost) << (i + j);
    }
  }
  return mask;
}

#endif

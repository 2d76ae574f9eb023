// What row_math.inl and attention share beyond vector.inl: rows that are no whole vectors, and e^x.

#include "vector.inl"

constexpr float kInfinity = __builtin_inff();

// The values [i, i + kLanes) of n, `fill` beyond the end; and back.
DLLM_LANES F load_at(const float* x, uint32_t i, uint32_t n, float fill) {
  return n - i >= kLanes ? load(x + i) : load_part(x + i, n - i, fill);
}
DLLM_LANES void store_at(float* x, uint32_t i, uint32_t n, F v) {
  if (n - i >= kLanes) {
    store(x + i, v);
  } else {
    store_part(x + i, n - i, v);
  }
}

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 split in two: Cody and Waite), e^r by the
// polynomial 1 + r + r^2 q(r) of degree 5 with the smallest relative error (Remez: 1.06e-7 with
// these coefficients), then the exponent n. Relative error below 2.5e-7 for x >= -87; below that 0,
// above 88.37 the value saturates at 2.4e38. NaN stays NaN.
DLLM_LANES F bounded_exponential(F x) {  // of x <= 88.37 or NaN
  const F n = round(x * 1.44269504088896341f);
  F r = fused(n, splat(-0.693359375f), x);
  r = fused(n, splat(2.12194440e-4f), r);
  F q = splat(0.00831252f);
  q = fused(q, r, splat(0.04189016f));
  q = fused(q, r, splat(0.16667114f));
  q = fused(q, r, splat(0.4999923f));
  q = fused(q, r, splat(1.0f));
  q = fused(q, r, splat(1.0f));
  return zero_below(power_of_two(q, n), x, -87.0f);
}
DLLM_LANES F exponential(F x) { return bounded_exponential(smaller(splat(88.37f), x)); }

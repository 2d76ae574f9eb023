// Powers of two that bring values into binary16's range, steps of int8.
#pragma once

#include <cuda_runtime.h>

namespace dllm::cuda {

/// The power of two s with `largest` / s in [2^exponent, 2^(exponent + 1)), not below 2^-126 (which
/// zeros get too). NaN where `largest` is not finite, so that the row says so.
__device__ __forceinline__ float row_scale(float largest, int exponent) {
  if (!(largest < INFINITY)) return nanf("");
  const int of_largest = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
  return __uint_as_float(static_cast<unsigned>(max(of_largest - exponent, -126) + 127) << 23);
}

/// 1 over such a power of two, exactly; NaN stays NaN. 1 over 2^127 is below the smallest normal.
__device__ __forceinline__ float inverse_of(float scale) {
  constexpr unsigned kLeast = 1u << 22;  // 2^-127
  return scale == scale ? __uint_as_float(max((254u << 23) - __float_as_uint(scale), kLeast))
                        : scale;
}

/// The int8 step of values up to `largest`, and 1 over it; 0 where they could not be told from 0
/// (as in the CPU backend), step NaN where `largest` is not finite.
struct Int8Step {
  float step = 0;
  float inverse = 0;

  __device__ __forceinline__ explicit Int8Step(float largest) {
    constexpr float kSmallest = 1e-30f;
    if (!(largest < INFINITY)) {
      step = nanf("");
    } else if (largest >= kSmallest) {
      step = largest * (1.0f / 127.0f);
      inverse = 127.0f / largest;
    }
  }
};

/// The int8 code of a value, rounded once, to even: the last byte. (Adding 1.5 * 2^23 rounds to
/// whole numbers.) Any where the step is NaN.
__device__ __forceinline__ unsigned int8_code(float value, float inverse) {
  return __float_as_uint(fmaf(value, inverse, 12582912.0f));
}
/// Codes as int8, the first in the lowest byte.
__device__ __forceinline__ unsigned two_codes(unsigned a, unsigned b) {
  return __byte_perm(a, b, 0x0040);
}
__device__ __forceinline__ unsigned four_codes(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(two_codes(a, b), two_codes(c, d), 0x5410);
}

}  // namespace dllm::cuda

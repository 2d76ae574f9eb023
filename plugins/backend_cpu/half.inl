// A binary16 of any address as f32; one instruction where the file is compiled for F16C. Included
// inside the unnamed namespace of whoever unpacks weights, before unpack.inl.

inline float half_to_float(const uint8_t* bytes) {
  uint16_t half;
  __builtin_memcpy(&half, bytes, 2);
#if defined(__F16C__)
  return _cvtsh_ss(half);
#else
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31;
  const uint32_t mantissa = half & 1023;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7F800000 | (mantissa << 13);
  } else if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24, exact in f32
    const float value = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return sign ? -value : value;
  } else {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  }
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
#endif
}

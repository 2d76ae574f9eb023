// f32 to BF16: to nearest, ties to even. NaN and infinity stay visible.

typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

#if defined(__AVX512BF16__)
DLLM_LANES Halves rounded_halves(F x) { return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(x)); }
#else
// The payload of a NaN keeps a bit.
DLLM_LANES Halves rounded_halves(F x) {
  const Words bits = reinterpret_cast<Words>(x);
  const Words nearest = bits + 0x7FFFu + (bits >> 16 & 1u);
  const Words is_nan = reinterpret_cast<Words>((bits & 0x7FFFFFFFu) > 0x7F800000u);
  const Words chosen = (is_nan & (bits | 0x400000u)) | (~is_nan & nearest);
  return __builtin_convertvector(chosen >> 16, Halves);
}
#endif

// The softmax of attention over blocks of keys, whatever multiplies. Part of attention_math.inl and
// attention_tiles.inl.

// One thread's work space; what else it holds is the multiplication's.
struct AttentionState {
  float* max;           // [kQueryBlock]
  float* sums;          // [kQueryBlock][kLanes]
  float* out;           // [kQueryBlock][out_stride]
  uint32_t out_stride;  // head_dim, padded
};

// One online-softmax step of row r: raises its maximum, gives kPower(score - maximum), e or 2 to
// that, of kVectors x kLanes keys at a time to put(key, vectors), scales what earlier keys gave and
// adds to the row's sums, which stay lane by lane. Values of keys beyond n_keys are 0.
template <F (*kPower)(F), uint32_t kVectors, typename Put>
DLLM_LANES void softmax_step(const float* scores, uint32_t n_keys, bool is_first, uint32_t r,
                             const AttentionState& state, Put put) {
  F largest = splat(-kInfinity);
  for (uint32_t i = 0; i < n_keys; i += kLanes)
    largest = larger(load_at(scores, i, n_keys, -kInfinity), largest);
  const float before = state.max[r];
  const float here = largest_lane(largest);
  const float now = here > before ? here : before;
  F total = is_first ? splat(0) : load(state.sums + r * kLanes);
  if (!is_first && now != before) {
    const F factor = kPower(splat(before - now));
    total = total * factor;
    float* out = state.out + r * state.out_stride;
    for (uint32_t d = 0; d < state.out_stride; d += kLanes) store(out + d, load(out + d) * factor);
  }
  for (uint32_t i = 0; i < n_keys; i += kVectors * kLanes) {
    F e[kVectors];
#pragma GCC unroll 4
    for (uint32_t j = 0; j < kVectors; ++j) {
      const uint32_t at = i + j * kLanes;
      e[j] = at < n_keys ? kPower(load_at(scores, at, n_keys, -kInfinity) - now) : splat(0);
      total = total + e[j];
    }
    put(i, e);
  }
  store(state.sums + r * kLanes, total);
  state.max[r] = now;
}

// Queries that see no key get zeros.
void store_results(const AttentionQueries& in, uint32_t n_keys, const AttentionState& state,
                   float* out) {
  for (uint32_t r = 0; r < in.n_rows; ++r) {
    const float sum = n_keys == 0 ? 1.0f : sum_lanes(load(state.sums + r * kLanes));
    const F inverse = splat(1.0f / sum);
    for (uint32_t d = 0; d < in.head_dim; d += kLanes) {
      const F v = n_keys == 0 ? splat(0) : load(state.out + r * state.out_stride + d) * inverse;
      store_at(out + r * in.stride, d, in.head_dim, v);
    }
  }
}

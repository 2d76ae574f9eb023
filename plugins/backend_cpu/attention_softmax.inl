// What attention keeps of a block of queries while it walks over the keys, whatever multiplies.
// Part of attention_math.inl and attention_tiles.inl.

// One thread's work space; what else it holds is the multiplication's.
struct AttentionState {
  float* max;           // [queries]: weights are relative to it
  float* sums;          // [queries][kLanes]: of weights, lane by lane
  float* out;           // [queries][out_stride]: weighted values
  uint32_t out_stride;  // head_dim, padded
};

// The largest of n_keys scores.
DLLM_LANES F largest_lanes(const float* scores, uint32_t n_keys) {
  F largest = splat(-kInfinity);
  for (uint32_t i = 0; i < n_keys; i += kLanes)
    largest = larger(load_at(scores, i, n_keys, -kInfinity), largest);
  return largest;
}

// What earlier keys gave row r, times factor.
DLLM_LANES void scale_row(const AttentionState& state, uint32_t r, F factor) {
  float* sums = state.sums + r * kLanes;
  store(sums, load(sums) * factor);
  float* out = state.out + r * state.out_stride;
  for (uint32_t d = 0; d < state.out_stride; d += kLanes) store(out + d, load(out + d) * factor);
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

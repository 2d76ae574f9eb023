// Rounding and unpacking for BF16 products; included inside the unnamed namespace of the files that
// multiply what it makes.

#include "vector.inl"
// Uses names of the above.
#include "brain_rounding.inl"

void round_group(const float* x, uint16_t* out) {
  for (uint32_t i = 0; i < kGroupCols; i += kLanes) {
    const Halves values = rounded_halves(load(x + i));
    __builtin_memcpy(out + i, &values, sizeof values);
  }
}

// Two inputs of 32 rows, a line each, to pairs.
void unpack_block(const WeightBlock& block, BrainTile& tile) {
  typedef uint16_t Line __attribute__((vector_size(2 * kTileRows)));
  Line low, high;  // where each half of the pairs comes from
  for (uint16_t i = 0; i < kTileRows; ++i) {
    low[i] = static_cast<uint16_t>(i / 2 + kTileRows * (i % 2));
    high[i] = static_cast<uint16_t>(low[i] + kTileRows / 2);
  }
  const auto line_of = [&](uint32_t k) {
    Line line = {};
    if (k < block.n_cols)
      __builtin_memcpy(&line, block.data + uint64_t{k} * sizeof line, sizeof line);
    return line;
  };
  for (uint32_t k = 0; k < kBlockCols; k += 2) {
    const Line even = line_of(k);
    const Line odd = line_of(k + 1);
    const Line pairs[2] = {__builtin_shuffle(even, odd, low), __builtin_shuffle(even, odd, high)};
    __builtin_memcpy(tile.pairs[k / 2], pairs, sizeof pairs);
  }
}

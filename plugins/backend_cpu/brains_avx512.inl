// Rounding and unpacking for BF16 products with AVX-512; included inside the unnamed namespace of
// the files that multiply what it makes.

void round_group(const float* x, uint16_t* out) {
  const __m512bh values = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x));
  _mm512_storeu_si512(out, reinterpret_cast<__m512i>(values));
}

// Two inputs of 32 rows, a line each, to pairs.
void unpack_block(const WeightBlock& block, BrainTile& tile) {
  alignas(64) uint16_t low[32], high[32];  // where each half of the pairs comes from
  for (uint16_t i = 0; i < 32; ++i) {
    low[i] = static_cast<uint16_t>(i / 2 + 32 * (i % 2));
    high[i] = static_cast<uint16_t>(low[i] + 16);
  }
  const __m512i low_index = _mm512_load_si512(low);
  const __m512i high_index = _mm512_load_si512(high);
  for (uint32_t k = 0; k < kBlockCols; k += 2) {
    const uint8_t* line = block.data + uint64_t{k} * kTileRows * 2;
    const __m512i none = _mm512_setzero_si512();
    const __m512i even = k < block.n_cols ? _mm512_load_si512(line) : none;
    const __m512i odd = k + 1 < block.n_cols ? _mm512_load_si512(line + 2 * kTileRows) : none;
    _mm512_store_si512(tile.pairs[k / 2][0], _mm512_permutex2var_epi16(even, low_index, odd));
    _mm512_store_si512(tile.pairs[k / 2][16], _mm512_permutex2var_epi16(even, high_index, odd));
  }
}

// CodeTile::linear to CodeTile::codes: an 8 x 8 transposition of 32-bit words at a time. Shared by
// the AVX2 and AVX-512 files; included inside their unnamed namespaces.

inline __attribute__((always_inline)) void transpose8(const uint8_t* from, uint8_t* to) {
  // from: 8 rows of 32 bytes, kBlockCols apart; to: 8 rows of 32 bytes, 4 * kTileRows apart.
  __m256i r[8], s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * kBlockCols));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    s[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  // Of rows 4h..4h+3: words (0, 4), (1, 5), (2, 6), (3, 7).
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    r[4 * h] = _mm256_unpacklo_epi64(s[4 * h], s[4 * h + 2]);
    r[4 * h + 1] = _mm256_unpackhi_epi64(s[4 * h], s[4 * h + 2]);
    r[4 * h + 2] = _mm256_unpacklo_epi64(s[4 * h + 1], s[4 * h + 3]);
    r[4 * h + 3] = _mm256_unpackhi_epi64(s[4 * h + 1], s[4 * h + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + i * 4 * kTileRows),
                       _mm256_permute2x128_si256(r[i], r[4 + i], 0x20));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + (i + 4) * 4 * kTileRows),
                       _mm256_permute2x128_si256(r[i], r[4 + i], 0x31));
  }
}

void interleave(CodeTile& tile) {
  for (uint32_t g = 0; g < tile.n_groups32; ++g)
    for (uint32_t row = 0; row < kTileRows; row += 8)
      transpose8(tile.linear[row] + g * kGroupCols, tile.codes[g * 8][row]);
}

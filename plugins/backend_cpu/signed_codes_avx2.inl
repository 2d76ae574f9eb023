// multiply_codes for AVX2 and signed 8-bit codes. Included inside the unnamed namespace of
// kernels_avx2.cpp, after codes_avx2.inl.
//
// vpmaddubsw would saturate, so weights and activations are widened to 16 bits first and multiplied
// by vpmaddwd into 32-bit sums, in the same register tile. A pair of inputs is (0, 2) or (1, 3) of
// four: two shifts widen a vector of codes without moving them.

// Inputs [4k, 4k + 2] and [4k + 1, 4k + 3] of a block, for kCount rows.
template <uint32_t kCount>
struct Widened {
  alignas(64) int16_t pairs[kBlockCols / 4][2][kCount][2];
};

DLLM_INLINE void widen_bytes(__m256i bytes, __m256i* even, __m256i* odd) {
  *even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
  *odd = _mm256_srai_epi16(bytes, 8);
}

void widen_weights(const CodeTile& tile, Widened<kTileRows>& out) {
  for (uint32_t k = 0; k < tile.n_groups32 * 8; ++k)
    for (uint32_t lane = 0; lane < kTileRows; lane += 8)
      widen_bytes(load_codes(tile.codes[k][lane]),
                  reinterpret_cast<__m256i*>(out.pairs[k][0][lane]),
                  reinterpret_cast<__m256i*>(out.pairs[k][1][lane]));
}

// Rows of a register tile: [row][group][parity][input / 4] pairs.
struct WidenedRows {
  alignas(32) int16_t pairs[kRowTile][kBlockCols / kGroupCols][2][8][2];
};

void widen_rows(const ActivationGroup* panel, uint64_t stride, uint32_t n_groups, uint32_t n_rows,
                WidenedRows& out) {
  for (uint32_t g = 0; g < n_groups; ++g)
    for (uint32_t r = 0; r < n_rows; ++r)
      widen_bytes(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel[g * stride + r].codes)),
                  reinterpret_cast<__m256i*>(out.pairs[r][g][0]),
                  reinterpret_cast<__m256i*>(out.pairs[r][g][1]));
}

template <int kRows>
DLLM_INLINE void multiply_signed_rows(const CodeTile& tile, const Widened<kTileRows>& weights,
                                      const WidenedRows& rows, const ActivationGroup* panel,
                                      uint64_t stride, uint32_t lane, float* acc) {
  for (uint32_t g = 0; g < tile.n_groups32; ++g) {
    __m256i sum[kRows][kVectors];
    const int16_t* codes = weights.pairs[g * 8][0][lane];
#pragma GCC unroll 16
    for (int s = 0; s < 16; ++s) {  // input s / 2, parity s % 2
      __m256i w[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) w[v] = load_codes(codes + s * kTileRows * 2 + 16 * v);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256i two = broadcast4(rows.pairs[r][g][s % 2][s / 2]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          const __m256i product = _mm256_madd_epi16(w[v], two);
          sum[r][v] = s == 0 ? product : _mm256_add_epi32(sum[r][v], product);
          keep_order(sum[r][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256 a_scale = _mm256_broadcast_ss(&panel[g * stride + r].scale);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* to = acc + r * kTileRows + 8 * v;
        const __m256 factor = _mm256_mul_ps(_mm256_load_ps(tile.scale[g] + lane + 8 * v), a_scale);
        _mm256_store_ps(to,
                        _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][v]), factor, _mm256_load_ps(to)));
      }
    }
  }
}

void multiply_signed(const CodeTile& tile, const ActivationGroup* panel, uint32_t stride,
                     uint32_t n_rows, float* acc) {
  Widened<kTileRows> weights;
  WidenedRows rows;
  widen_weights(tile, weights);
  for (uint32_t r = 0; r < n_rows; r += kRowTile) {
    const bool whole = r + kRowTile <= n_rows;
    const uint32_t count = whole ? kRowTile : n_rows - r;
    widen_rows(panel + r, stride, tile.n_groups32, count, rows);
    for (uint32_t lane = 0; lane < kTileRows; lane += 8 * kVectors) {
      float* out = acc + r * kTileRows + lane;
      switch (count) {
        case 4:
          multiply_signed_rows<4>(tile, weights, rows, panel + r, stride, lane, out);
          break;
        case 3:
          multiply_signed_rows<3>(tile, weights, rows, panel + r, stride, lane, out);
          break;
        case 2:
          multiply_signed_rows<2>(tile, weights, rows, panel + r, stride, lane, out);
          break;
        default:
          multiply_signed_rows<1>(tile, weights, rows, panel + r, stride, lane, out);
      }
    }
  }
}

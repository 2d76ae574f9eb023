// multiply_add in 256-bit vectors: a register tile of 6 rows x 16 lanes. Included inside the
// unnamed namespace of a kernels_*.cpp that defines DLLM_INLINE.

// kRows x (8 kVectors) elements of c in registers.
template <int kRows, int kVectors>
DLLM_INLINE void multiply_add_block(uint32_t n_k, const float* a, uint32_t lda, const float* b,
                                    uint32_t ldb, float* c, uint32_t ldc) {
  __m256 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_setzero_ps();
  for (uint32_t k = 0; k < n_k; ++k) {
    __m256 bk[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      bk[v] = _mm256_loadu_ps(b + static_cast<uint64_t>(k) * ldb + 8 * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 ak = _mm256_broadcast_ss(a + static_cast<uint64_t>(r) * lda + k);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_fmadd_ps(ak, bk[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* at = c + static_cast<uint64_t>(r) * ldc + 8 * v;
      _mm256_storeu_ps(at, _mm256_loadu_ps(at) + sum[r][v]);
    }
}

template <int kVectors>
void multiply_add_lanes(uint32_t n_rows, uint32_t n_k, const float* a, uint32_t lda, const float* b,
                        uint32_t ldb, float* c, uint32_t ldc) {
  constexpr uint32_t kBlock = 6;
  uint32_t r = 0;
  for (; r + kBlock <= n_rows; r += kBlock)
    multiply_add_block<kBlock, kVectors>(n_k, a + static_cast<uint64_t>(r) * lda, lda, b, ldb,
                                         c + static_cast<uint64_t>(r) * ldc, ldc);
  for (; r < n_rows; ++r)
    multiply_add_block<1, kVectors>(n_k, a + static_cast<uint64_t>(r) * lda, lda, b, ldb,
                                    c + static_cast<uint64_t>(r) * ldc, ldc);
}

void multiply_add(uint32_t n_rows, uint32_t n_k, uint32_t n_lanes, const float* a, uint32_t lda,
                  const float* b, uint32_t ldb, float* c, uint32_t ldc) {
  uint32_t lane = 0;
  for (; lane + 16 <= n_lanes; lane += 16)
    multiply_add_lanes<2>(n_rows, n_k, a, lda, b + lane, ldb, c + lane, ldc);
  for (; lane < n_lanes; lane += 8)
    multiply_add_lanes<1>(n_rows, n_k, a, lda, b + lane, ldb, c + lane, ldc);
}

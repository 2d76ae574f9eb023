// The arithmetic of attention (attention.cpp) for one query block. Part of row_math.inl.
//
// Panels hold strips of kStrip columns, row after row, so that a register tile of kTileQueries
// queries x kStrip columns streams through memory: keys [strip of keys][head_dim][kStrip], values
// [strip of dimensions][key][kStrip]. A last value strip of one vector is one vector wide.
// Order of accumulation: scores over dimensions ascending, results over keys ascending.

constexpr uint32_t kTileVectors = 2;
constexpr uint32_t kStrip = kTileVectors * kLanes;
#if defined(__AVX512F__) && defined(__AVX512DQ__)
constexpr uint32_t kTileQueries = 8;
#elif defined(__AVX2__)
constexpr uint32_t kTileQueries = 6;
#else
constexpr uint32_t kTileQueries = 2;
#endif

// c[r][j] = (kAdd ? c[r][j] : 0) + sum_k a[r][k] b[k][j], k ascending.
template <uint32_t kRows, uint32_t kVectors, bool kAdd>
void multiply_tile(uint32_t n_k, const float* a, uint32_t lda, const float* b, uint32_t ldb,
                   float* c, uint32_t ldc) {
  F sum[kRows][kVectors];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kVectors; ++v)
      sum[r][v] = kAdd ? load(c + r * ldc + v * kLanes) : splat(0);
  for (uint32_t k = 0; k < n_k; ++k, ++a, b += ldb) {
    F bk[kVectors];
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kVectors; ++v) bk[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const F ak = splat(a[r * lda]);
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kVectors; ++v) sum[r][v] = fused(ak, bk[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kVectors; ++v) store(c + r * ldc + v * kLanes, sum[r][v]);
}

// Any number of queries below a full tile.
template <uint32_t kRows, uint32_t kVectors, bool kAdd>
void multiply_rest(uint32_t n_rows, uint32_t n_k, const float* a, uint32_t lda, const float* b,
                   uint32_t ldb, float* c, uint32_t ldc) {
  if (n_rows == kRows) {
    multiply_tile<kRows, kVectors, kAdd>(n_k, a, lda, b, ldb, c, ldc);
  } else if constexpr (kRows > 1) {
    multiply_rest<kRows - 1, kVectors, kAdd>(n_rows, n_k, a, lda, b, ldb, c, ldc);
  }
}

template <uint32_t kVectors, bool kAdd>
void multiply_strip(uint32_t n_rows, uint32_t n_k, const float* a, uint32_t lda, const float* b,
                    uint32_t ldb, float* c, uint32_t ldc) {
  uint32_t r = 0;
  for (; r + kTileQueries <= n_rows; r += kTileQueries)
    multiply_tile<kTileQueries, kVectors, kAdd>(n_k, a + r * lda, lda, b, ldb, c + r * ldc, ldc);
  if (r < n_rows)
    multiply_rest<kTileQueries - 1, kVectors, kAdd>(n_rows - r, n_k, a + r * lda, lda, b, ldb,
                                                    c + r * ldc, ldc);
}

uint32_t padded(uint32_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

#if defined(__AVX2__)
// to[c][r] = from[r][c], 8 x 8.
DLLM_LANES void transpose8(const float* const* from, uint32_t column, float* to, uint32_t ld) {
  __m256 r[8], s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from[i] + column);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#else
DLLM_LANES void transpose8(const float* const* from, uint32_t column, float* to, uint32_t ld) {
  for (uint32_t c = 0; c < 8; ++c)
    for (uint32_t r = 0; r < 8; ++r) to[c * ld + r] = from[r][column + c];
}
#endif

// Keys beyond n_keys are zeros up to a whole vector.
void pack_keys(const float* k, uint64_t stride, uint32_t n_keys, uint32_t head_dim, float* panel) {
  static const float kNoKey[8] = {};
  for (uint32_t key = 0; key < padded(n_keys); key += 8) {
    float* to = panel + static_cast<uint64_t>(key / kStrip) * head_dim * kStrip + key % kStrip;
    for (uint32_t d = 0; d < head_dim; d += 8) {
      const float* rows[8];
      for (uint32_t i = 0; i < 8; ++i)
        rows[i] = key + i < n_keys ? k + (key + i) * stride + d : kNoKey;
      if (d + 8 <= head_dim) {
        transpose8(rows, 0, to + d * kStrip, kStrip);
      } else {
        for (uint32_t c = 0; d + c < head_dim; ++c)
          for (uint32_t i = 0; i < 8; ++i) to[(d + c) * kStrip + i] = rows[i][c];
      }
    }
  }
}

// Dimensions beyond head_dim are zeros up to a whole vector.
void pack_values(const float* v, uint64_t stride, uint32_t n_keys, uint32_t head_dim,
                 float* panel) {
  const uint32_t dims = padded(head_dim);
  for (uint32_t d = 0; d < dims; d += kStrip, panel += kKeyBlock * kStrip) {
    const uint32_t width = dims - d < kStrip ? dims - d : kStrip;
    for (uint32_t i = 0; i < n_keys; ++i)
      for (uint32_t j = 0; j < width; j += kLanes)
        store(panel + i * width + j, load_at(v + i * stride, d + j, head_dim, 0));
  }
}

// scores[r][key] = q k for the panel's keys.
void score_keys(const AttentionQueries& in, uint32_t n_keys, const float* panel,
                const AttentionScratch& work) {
  for (uint32_t key = 0; key < n_keys; key += kStrip, panel += in.head_dim * kStrip)
    (n_keys - key > kLanes ? multiply_strip<kTileVectors, false>
                           : multiply_strip<1, false>)(in.n_rows, in.head_dim, work.queries,
                                                       in.head_dim, panel, kStrip,
                                                       work.scores + key, kKeyBlock);
}

// out[r] (+)= scores[r] v.
template <bool kAdd>
void add_values(const AttentionQueries& in, uint32_t n_keys, const float* panel,
                const AttentionScratch& work) {
  const uint32_t dims = padded(in.head_dim);
  for (uint32_t d = 0; d < dims; d += kStrip, panel += kKeyBlock * kStrip)
    if (dims - d >= kStrip)
      multiply_strip<kTileVectors, kAdd>(in.n_rows, n_keys, work.scores, kKeyBlock, panel, kStrip,
                                         work.out + d, dims);
    else
      multiply_strip<1, kAdd>(in.n_rows, n_keys, work.scores, kKeyBlock, panel, kLanes,
                              work.out + d, dims);
}

// One online-softmax step of a row: raises its maximum, replaces scores by exp(score - maximum),
// scales what earlier keys gave and adds to the row's sums, which stay lane by lane.
DLLM_LANES void softmax_step(float* scores, uint32_t n_keys, bool is_first, float* max, float* sums,
                             float* out, uint32_t dims) {
  F largest = splat(-kInfinity);
  for (uint32_t i = 0; i < n_keys; i += kLanes)
    largest = larger(load_at(scores, i, n_keys, -kInfinity), largest);
  const float before = *max;
  const float here = largest_lane(largest);
  const float now = here > before ? here : before;
  F total = is_first ? splat(0) : load(sums);
  if (!is_first && now != before) {
    const F factor = exponential(splat(before - now));
    total = total * factor;
    for (uint32_t d = 0; d < dims; d += kLanes) store(out + d, load(out + d) * factor);
  }
  for (uint32_t i = 0; i < n_keys; i += kLanes) {
    const F e = exponential(load_at(scores, i, n_keys, -kInfinity) - now);
    total = total + e;
    store(scores + i, e);  // a block has room for whole vectors
  }
  store(sums, total);
  *max = now;
}

void load_queries(const AttentionQueries& in, const AttentionScratch& work) {
  for (uint32_t r = 0; r < in.n_rows; ++r) {
    float* to = work.queries + r * in.head_dim;
    for (uint32_t d = 0; d < in.head_dim; d += kLanes)
      store_at(to, d, in.head_dim, load_at(in.q + r * in.stride, d, in.head_dim, 0) * in.scale);
    work.max[r] = -kInfinity;
  }
}

// Queries that see no key get zeros.
void store_results(const AttentionQueries& in, uint32_t n_keys, const AttentionScratch& work,
                   float* out) {
  const uint32_t dims = padded(in.head_dim);
  for (uint32_t r = 0; r < in.n_rows; ++r) {
    const float sum = n_keys == 0 ? 1.0f : sum_lanes(load(work.sums + r * kLanes));
    const F inverse = splat(1.0f / sum);
    for (uint32_t d = 0; d < in.head_dim; d += kLanes) {
      const F v = n_keys == 0 ? splat(0) : load(work.out + r * dims + d) * inverse;
      store_at(out + r * in.stride, d, in.head_dim, v);
    }
  }
}

void attend(const AttentionQueries& in, const AttentionPanels& keys, const AttentionScratch& work,
            float* out) {
  const uint32_t dims = padded(in.head_dim);
  load_queries(in, work);
  const float* panel = keys.first;
  for (uint32_t key = 0; key < keys.n_keys; key += kKeyBlock, panel += keys.stride) {
    const uint32_t n_keys = keys.n_keys - key < kKeyBlock ? keys.n_keys - key : kKeyBlock;
    score_keys(in, n_keys, panel, work);
    for (uint32_t r = 0; r < in.n_rows; ++r)
      softmax_step(work.scores + r * kKeyBlock, n_keys, key == 0, &work.max[r],
                   work.sums + r * kLanes, work.out + r * dims, dims);
    const float* values = panel + static_cast<uint64_t>(in.head_dim) * kKeyBlock;
    (key == 0 ? add_values<false> : add_values<true>)(in, n_keys, values, work);
  }
  store_results(in, keys.n_keys, work, out);
}

constexpr AttentionMath kAttention = {kLanes, pack_keys, pack_values, attend};

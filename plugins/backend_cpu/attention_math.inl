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

constexpr uint32_t kQueryBlock = 48;  // queries that walk over the keys together
constexpr uint32_t kKeyBlock = 64;
constexpr uint32_t kMostLanes = 16;  // padding of a head, whatever the instruction set

uint32_t padded(uint32_t n) { return (n + kLanes - 1) / kLanes * kLanes; }
uint32_t padded_head(uint32_t head_dim) {
  return (head_dim + kMostLanes - 1) / kMostLanes * kMostLanes;
}
// Keys, then values.
uint64_t panel_floats(uint32_t head_dim) {
  return static_cast<uint64_t>(head_dim + padded_head(head_dim)) * kKeyBlock;
}

#include "attention_softmax.inl"

// One thread's work space.
struct AttentionScratch {
  float* queries;  // [kQueryBlock][head_dim]
  float* scores;   // [kQueryBlock][kKeyBlock]
  AttentionState state;
};
uint64_t scratch_floats(uint32_t head_dim) {
  return static_cast<uint64_t>(kQueryBlock) *
         (kKeyBlock + kMostLanes + 2 * padded_head(head_dim) + 1);
}
AttentionScratch scratch_at(float* memory, uint32_t head_dim) {
  AttentionScratch work;
  work.scores = memory;
  work.state.sums = work.scores + kQueryBlock * kKeyBlock;
  work.queries = work.state.sums + kQueryBlock * kMostLanes;
  work.state.out = work.queries + kQueryBlock * padded_head(head_dim);
  work.state.max = work.state.out + kQueryBlock * padded_head(head_dim);
  work.state.out_stride = padded(head_dim);
  return work;
}

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

#include "transpose.inl"

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

// One online-softmax step of row r: raises its maximum and turns scores into e^(score - maximum).
void softmax_step(float* scores, uint32_t n_keys, bool is_first, uint32_t r,
                  const AttentionState& state) {
  const float before = state.max[r];
  const float here = largest_lane(largest_lanes(scores, n_keys));
  const float now = here > before ? here : before;
  if (!is_first && now != before) scale_row(state, r, bounded_exponential(splat(before - now)));
  F total = is_first ? splat(0) : load(state.sums + r * kLanes);
  for (uint32_t i = 0; i < n_keys; i += kLanes) {  // a block has room for whole vectors
    const F e = bounded_exponential(load_at(scores, i, n_keys, -kInfinity) - now);
    store(scores + i, e);
    total = total + e;
  }
  store(state.sums + r * kLanes, total);
  state.max[r] = now;
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
                                         work.state.out + d, dims);
    else
      multiply_strip<1, kAdd>(in.n_rows, n_keys, work.scores, kKeyBlock, panel, kLanes,
                              work.state.out + d, dims);
}

void load_queries(const AttentionQueries& in, const AttentionScratch& work) {
  for (uint32_t r = 0; r < in.n_rows; ++r) {
    float* to = work.queries + r * in.head_dim;
    for (uint32_t d = 0; d < in.head_dim; d += kLanes)
      store_at(to, d, in.head_dim, load_at(in.q + r * in.stride, d, in.head_dim, 0) * in.scale);
    work.state.max[r] = -kInfinity;
  }
}

void pack(const AttentionKeys& from, float* panel) {
  pack_keys(from.k, from.stride, from.n_keys, from.head_dim, panel);
  pack_values(from.v, from.stride, from.n_keys, from.head_dim,
              panel + static_cast<uint64_t>(from.head_dim) * kKeyBlock);
}

void attend(const AttentionQueries& in, const AttentionPanels& keys, float* scratch, float* out) {
  const AttentionScratch work = scratch_at(scratch, in.head_dim);
  load_queries(in, work);
  const float* panel = keys.first;
  for (uint32_t key = 0; key < keys.n_keys; key += kKeyBlock, panel += keys.stride) {
    const uint32_t n_keys = keys.n_keys - key < kKeyBlock ? keys.n_keys - key : kKeyBlock;
    score_keys(in, n_keys, panel, work);
    for (uint32_t r = 0; r < in.n_rows; ++r)
      softmax_step(work.scores + r * kKeyBlock, n_keys, key == 0, r, work.state);
    const float* values = panel + static_cast<uint64_t>(in.head_dim) * kKeyBlock;
    (key == 0 ? add_values<false> : add_values<true>)(in, n_keys, values, work);
  }
  store_results(in, keys.n_keys, work.state, out);
}

constexpr AttentionMath kAttention = {kQueryBlock,    kKeyBlock, panel_floats,
                                      scratch_floats, pack,      attend};

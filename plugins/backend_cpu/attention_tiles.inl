// Attention with AMX BF16 tiles. Included inside an unnamed namespace, after kernels.hpp; needs no
// instruction but those of the tiles, so that a test can run it on any x86-64 processor that
// emulates them.
//
// Queries (times the scale and log2 e), keys, values and weights are rounded to BF16 and multiplied
// in f32. A weight is 2^(score - m), m a whole number, so its rounding does not depend on m, and
// the weights that are summed are the rounded ones: a row of them still sums to one.
//
// A panel is made of units, what a tile register takes of 16 columns and 32 inputs: pairs of
// inputs, [input / 2][column][input % 2]. Keys are [16 keys][32 dimensions] units, values
// [16 dimensions][32 keys] units. Keys beyond the last are zeros up to the end of a unit.
//
// Two times 16 queries are multiplied with two columns of units at a time.

#include "lanes.inl"
// Uses names of the above.
#include "attention_softmax.inl"
#include "brain_rounding.inl"
#include "tile_registers.inl"
#include "transpose.inl"

constexpr uint32_t kQueryTiles = 4;
constexpr uint32_t kQueryBlock = kQueryTiles * kRegisterRows;
constexpr uint32_t kKeyBlock = 128;  // weights of all queries: 16 KiB, in the first-level cache
constexpr uint32_t kUnitInputs = 32;
constexpr uint32_t kUnit = kUnitInputs * kRegisterRows;  // values of a unit
constexpr uint32_t kBlockUnits = kKeyBlock / kUnitInputs;
constexpr uint32_t kScoreStride = kKeyBlock + kRegisterRows;  // rows in different cache sets
static_assert(kRegisterRows % kLanes == 0);

constexpr uint32_t whole(uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; }
constexpr uint32_t head_inputs(uint32_t head_dim) { return whole(head_dim, kUnitInputs); }
// Two tiles of columns at a time: what is behind head_dim holds anything.
constexpr uint32_t head_columns(uint32_t head_dim) { return whole(head_dim, 2 * kRegisterRows); }

// Two BF16 values take a float's place.
uint64_t panel_floats(uint32_t head_dim) {
  return uint64_t{kKeyBlock} * (head_inputs(head_dim) + head_columns(head_dim)) / 2;
}
const uint16_t* values_of(const uint16_t* panel, uint32_t head_dim) {
  return panel + uint64_t{kKeyBlock} * head_inputs(head_dim);
}

// Left sides of products are [input / 32][row][input % 32].
DLLM_LANES uint32_t left_at(uint32_t row, uint32_t input) {
  return (input / kUnitInputs * kQueryBlock + row) * kUnitInputs;
}
struct TileScratch {
  float* scores;  // [kQueryBlock][kScoreStride]
  uint16_t* queries;
  uint16_t* weights;
  AttentionState state;
};
uint64_t scratch_floats(uint32_t head_dim) {
  return uint64_t{kQueryBlock} * (kScoreStride + head_inputs(head_dim) / 2 + kKeyBlock / 2 +
                                  head_columns(head_dim) + kLanes + 1);
}
TileScratch scratch_at(float* memory, uint32_t head_dim) {
  TileScratch work;
  const auto take = [&](uint32_t n) {
    float* const at = memory;
    memory += kQueryBlock * n;
    return at;
  };
  work.scores = take(kScoreStride);
  work.queries = reinterpret_cast<uint16_t*>(take(head_inputs(head_dim) / 2));
  work.weights = reinterpret_cast<uint16_t*>(take(kKeyBlock / 2));
  work.state.out_stride = head_columns(head_dim);
  work.state.out = take(work.state.out_stride);
  work.state.sums = take(kLanes);
  work.state.max = take(1);
  return work;
}

// 32 values as BF16, a line of a left side or a row of pairs; both are 64-byte aligned.
struct Line {
  F at[kUnitInputs / kLanes];
};
DLLM_LANES void store_line(const Line& x, uint16_t* to) {
#if defined(__AVX512BF16__)
  _mm512_store_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x.at[1], x.at[0])));
#else
  for (uint32_t i = 0; i < kUnitInputs / kLanes; ++i) {
    const Halves halves = rounded_halves(x.at[i]);
    __builtin_memcpy(to + i * kLanes, &halves, sizeof halves);
  }
#endif
}
// The values [i, i + 32) of n, zeros beyond the end.
DLLM_LANES Line load_line(const float* x, uint32_t i, uint32_t n) {
  Line line;
  for (uint32_t j = 0; j < kUnitInputs / kLanes; ++j, i += kLanes)
    line.at[j] = i < n ? load_at(x, i, n, 0) : splat(0);
  return line;
}
// total + the 32 BF16 values of a line.
DLLM_LANES F add_line(F total, const uint16_t* line) {
#if defined(__AVX512BF16__)
  const __m512i ones = _mm512_set1_epi16(0x3F80);
  return _mm512_dpbf16_ps(total, reinterpret_cast<__m512bh>(_mm512_load_si512(line)),
                          reinterpret_cast<__m512bh>(ones));
#else
  for (uint32_t i = 0; i < kUnitInputs; i += 2 * kLanes) {
    Words pairs;
    __builtin_memcpy(&pairs, line + i, sizeof pairs);
    total = total + reinterpret_cast<F>(pairs & 0xFFFF0000u);
    total = total + reinterpret_cast<F>(pairs << 16);
  }
  return total;
#endif
}

// The right side of a product: columns of units, 16 values wide.
struct Columns {
  const uint16_t* units;
  uint64_t stride;  // from column to column
  uint32_t n_units;
};

DLLM_LANES TileInputs inputs_of(const uint16_t* left, const Columns& right, uint32_t unit) {
  const uint16_t* rows = left + uint64_t{unit} * kQueryTiles * kUnit;
  const uint16_t* columns = right.units + uint64_t{unit} * kUnit;
  return {{rows, rows + kUnit}, kStepBytes, {columns, columns + right.stride}, kStepBytes};
}

// c[32 rows][32 columns] (+)= left times two columns, whose first units are loaded; then loads the
// first ones of `next`.
template <bool kAdd>
DLLM_LANES void multiply_square(const uint16_t* left, const Columns& right, const TileInputs& next,
                                float* c, uint32_t ldc) {
  const uint64_t bytes = uint64_t{ldc} * sizeof(float);
  float* const low = c + kRegisterRows * ldc;
  if constexpr (kAdd) {
    load_tile<0>(c, bytes);
    load_tile<1>(c + kRegisterRows, bytes);
    load_tile<2>(low, bytes);
    load_tile<3>(low + kRegisterRows, bytes);
  } else {
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
  }
  const auto after = [&](uint32_t unit) {
    return unit < right.n_units ? inputs_of(left, right, unit) : next;
  };
  for (uint32_t unit = 0; unit < right.n_units; unit += 2) {
    multiply_inputs<BrainTiles, false>(after(unit + 1));
    if (unit + 1 < right.n_units) multiply_inputs<BrainTiles, true>(after(unit + 2));
  }
  store_tile<0>(c, bytes);
  store_tile<1>(c + kRegisterRows, bytes);
  store_tile<2>(low, bytes);
  store_tile<3>(low + kRegisterRows, bytes);
}

// c[n_rows][n_columns] (+)= left times right, up to whole squares of 32.
template <bool kAdd>
void multiply(const uint16_t* left, uint32_t n_rows, Columns right, uint32_t n_columns, float* c,
              uint32_t ldc) {
  constexpr uint32_t kSquare = 2 * kRegisterRows;
  load_inputs(inputs_of(left, right, 0));
  for (uint32_t column = 0; column < n_columns; column += kSquare) {
    Columns behind = right;
    behind.units += column + kSquare < n_columns ? 2 * right.stride : 0;
    for (uint32_t row = 0; row < n_rows; row += kSquare) {
      const uint16_t* rows = left + row * kUnitInputs;
      const TileInputs next = row + kSquare < n_rows
                                  ? inputs_of(rows + kSquare * kUnitInputs, right, 0)
                                  : inputs_of(left, behind, 0);
      multiply_square<kAdd>(rows, right, next, c + row * ldc + column, ldc);
    }
    right = behind;
  }
}

// A unit of 16 keys and 32 dimensions from d on; rows beyond n_keys are zeros.
void pack_key_unit(const AttentionKeys& from, uint32_t key, uint32_t d, uint16_t* unit) {
  alignas(64) uint16_t lines[kRegisterRows][kUnitInputs];
  for (uint32_t i = 0; i < kRegisterRows; ++i)
    store_line(key + i < from.n_keys ? load_line(from.k + (key + i) * from.stride, d, from.head_dim)
                                     : Line{},
               lines[i]);
  for (uint32_t i = 0; i < kRegisterRows; i += 8)
    for (uint32_t j = 0; j < kUnitInputs; j += 16) {
      const float* rows[8];  // pairs, moved as floats
      for (uint32_t r = 0; r < 8; ++r) rows[r] = reinterpret_cast<const float*>(lines[i + r] + j);
      transpose8(rows, 0, reinterpret_cast<float*>(unit + j / 2 * kUnitInputs + 2 * i),
                 kRegisterRows);
    }
}

// (even[i], odd[i]) side by side for kLanes columns.
DLLM_LANES void store_pairs(F even, F odd, uint16_t* to) {
  const auto word = [](F x) { return __builtin_convertvector(rounded_halves(x), Words); };
  const Words pairs = word(even) | word(odd) << 16;
  __builtin_memcpy(to, &pairs, sizeof pairs);
}

// A unit of 16 dimensions from d on and 32 keys.
void pack_value_unit(const AttentionKeys& from, uint32_t key, uint32_t d, uint16_t* unit) {
  for (uint32_t i = 0; i < kUnitInputs; i += 2)
    for (uint32_t j = 0; j < kRegisterRows; j += kLanes) {
      const auto at = [&](uint32_t row) {
        const bool exists = row < from.n_keys && d + j < from.head_dim;
        return exists ? load_at(from.v + row * from.stride, d + j, from.head_dim, 0) : splat(0);
      };
      store_pairs(at(key + i), at(key + i + 1), unit + i * kRegisterRows + 2 * j);
    }
}

// Asks for rows of a head ahead of their use: they lie too far apart for the processor to guess.
template <int kForWriting>
void fetch_rows(const float* rows, uint64_t stride, uint32_t n_rows, uint32_t head_dim) {
  constexpr uint32_t kFloatsALine = 16;
  for (uint32_t r = 0; r < n_rows; ++r)
    for (uint32_t d = 0; d < head_dim; d += kFloatsALine)
      __builtin_prefetch(rows + r * stride + d, kForWriting);
}

void pack(const AttentionKeys& from, float* panel) {
  const uint32_t head_units = head_inputs(from.head_dim) / kUnitInputs;
  auto* const keys = reinterpret_cast<uint16_t*>(panel);
  auto* const values = const_cast<uint16_t*>(values_of(keys, from.head_dim));
  const auto fetch = [&](const float* rows, uint32_t first) {
    if (first >= from.n_keys) return;
    const uint32_t left = from.n_keys - first;
    fetch_rows<0>(rows + first * from.stride, from.stride, left < kUnitInputs ? left : kUnitInputs,
                  from.head_dim);
  };
  fetch(from.k, 0);
  for (uint32_t key = 0; key < from.n_keys; key += kUnitInputs) {
    fetch(from.v, key);
    for (uint32_t i = 0; i < kUnitInputs; i += kRegisterRows)
      for (uint32_t d = 0; d < from.head_dim; d += kUnitInputs)
        pack_key_unit(from, key + i, d,
                      keys + ((key + i) / kRegisterRows * head_units + d / kUnitInputs) * kUnit);
    fetch(from.k, key + kUnitInputs);
    for (uint32_t d = 0; d < from.head_dim; d += kRegisterRows)
      pack_value_unit(from, key, d,
                      values + (d / kRegisterRows * kBlockUnits + key / kUnitInputs) * kUnit);
  }
}

// Queries scaled so that weights are powers of 2. Rows beyond the last hold
// anything: they only meet their own results.
void load_queries(const AttentionQueries& in, const TileScratch& work) {
  const float scale = in.scale * 1.44269504f;  // log2(e)
  for (uint32_t r = 0; r < in.n_rows; ++r)
    for (uint32_t d = 0; d < in.head_dim; d += kUnitInputs) {
      Line line = load_line(in.q + r * in.stride, d, in.head_dim);
      for (F& each : line.at) each = each * scale;
      store_line(line, work.queries + left_at(r, d));
    }
}

// 2^x of x in [-125, 127] or NaN, to 7.5e-5 of itself, far less than BF16 rounds it: a cubic of
// what x is above a whole number, with the smallest relative error (Remez).
DLLM_LANES F coarse_power(F x) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  const F n = x;  // power_of_two rounds it down
  const F r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
  const F n = round(x - 0.5f);
  const F r = x - n;
#endif
  F q = splat(0.07802452f);
  q = fused(q, r, splat(0.22606716f));
  q = fused(q, r, splat(0.69583354f));
  q = fused(q, r, splat(0.99992522f));
  return power_of_two(q, n);
}

// m of a row is kept while no score exceeds it by more than this: then a weight is at most 256 and
// what earlier keys gave need not be scaled.
constexpr float kMostAbove = 8;
constexpr float kLeastPower = -125;  // the least whose power of 2 is surely no denormal number

// Makes m the whole number next to the largest score and scales what earlier keys gave by a power
// of 2.
void raise_row(F largest, bool is_first, uint32_t r, const AttentionState& state) {
  const F now = round(splat(largest_lane(largest)));
  if (!is_first)
    scale_row(state, r, power_of_two(splat(1), larger(splat(kLeastPower), state.max[r] - now)));
  state.max[r] = now[0];
}

// Weights 2^(score - m) of the n_keys of a panel as BF16, and their sums. Those of keys beyond the
// last up to a whole unit are 2^-125: of values that are zeros, and nothing in a sum.
void weigh_keys(const AttentionQueries& in, uint32_t n_keys, bool is_first,
                const TileScratch& work) {
  const AttentionState& state = work.state;
  for (uint32_t r = 0; r < in.n_rows; ++r) {
    const float* scores = work.scores + r * kScoreStride;
    const F largest = largest_lanes(scores, n_keys);
    if (is_first || !all(at_most(largest, state.max[r] + kMostAbove)))
      raise_row(largest, is_first, r, state);
    const float m = state.max[r];
    F total = is_first ? splat(0) : load(state.sums + r * kLanes);
    for (uint32_t i = 0; i < n_keys; i += kUnitInputs) {
      Line line;
      for (uint32_t j = 0; j < kUnitInputs / kLanes; ++j) {
        const uint32_t at = i + j * kLanes;
        const F score = at < n_keys ? load_at(scores, at, n_keys, -kInfinity) : splat(-kInfinity);
        line.at[j] = coarse_power(larger(splat(kLeastPower), score - m));
      }
      uint16_t* const weights = work.weights + left_at(r, i);
      store_line(line, weights);
      total = add_line(total, weights);
    }
    store(state.sums + r * kLanes, total);
  }
}

void attend(const AttentionQueries& in, const AttentionPanels& keys, float* scratch, float* out) {
  const TileScratch work = scratch_at(scratch, in.head_dim);
  const uint32_t head_units = head_inputs(in.head_dim) / kUnitInputs;
  enter_tiles();
  load_queries(in, work);
  const float* panel = keys.first;
  for (uint32_t key = 0; key < keys.n_keys; key += kKeyBlock, panel += keys.stride) {
    const uint32_t n_keys = keys.n_keys - key < kKeyBlock ? keys.n_keys - key : kKeyBlock;
    const auto* units = reinterpret_cast<const uint16_t*>(panel);
    multiply<false>(work.queries, in.n_rows, {units, uint64_t{head_units} * kUnit, head_units},
                    n_keys, work.scores, kScoreStride);
    weigh_keys(in, n_keys, key == 0, work);
    if (key + n_keys == keys.n_keys) fetch_rows<1>(out, in.stride, in.n_rows, in.head_dim);
    const Columns values = {values_of(units, in.head_dim), uint64_t{kBlockUnits} * kUnit,
                            whole(n_keys, kUnitInputs) / kUnitInputs};
    (key == 0 ? multiply<false> : multiply<true>)(work.weights, in.n_rows, values, in.head_dim,
                                                  work.state.out, work.state.out_stride);
  }
  leave_tiles();
  store_results(in, keys.n_keys, work.state, out);
}

constexpr AttentionMath kTileAttention = {kQueryBlock,    kKeyBlock, panel_floats,
                                          scratch_floats, pack,      attend};

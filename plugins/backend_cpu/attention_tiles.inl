// Attention with AMX BF16 tiles. Included inside an unnamed namespace, after kernels.hpp; needs no
// instruction but those of the tiles, so that a test can run it on any x86-64 processor that
// emulates them.
//
// Both operands of both products are sums of two BF16 values (brain_parts.inl), multiplied as
// low high + high high + high low, in f32. So scores and results are off by about 2^-16 of their
// terms, where plain BF16 would lose 2^-8.
//
// A panel is made of units, what a pair of tile registers takes of 16 columns and 32 inputs: first
// the high parts as pairs of inputs, [input / 2][column][input % 2], then the low ones. Keys are
// [16 keys][32 dimensions] units, values [16 dimensions][32 keys] units. Keys beyond the last are
// zeros up to the end of a unit.
//
// A unit is multiplied with up to three times 16 queries. Tile registers: 0 to 2 sums, 3 and 4 the
// unit's parts, 5 to 7 the queries' (or weights') low parts, then their high ones.

#include "lanes.inl"
// Uses names of the above.
#include "attention_softmax.inl"
#include "brain_parts.inl"
#include "tile_registers.inl"
#include "transpose.inl"

constexpr uint32_t kKeyBlock = 128;  // weights of 48 queries: 24 KiB, in the first-level cache
constexpr uint32_t kUnitInputs = 32;
constexpr uint32_t kPart = kUnitInputs * kRegisterRows;  // values of a unit's high or low part
constexpr uint32_t kUnit = 2 * kPart;
constexpr uint32_t kBlockUnits = kKeyBlock / kUnitInputs;
constexpr uint32_t kScoreStride = kKeyBlock + kRegisterRows;  // rows in different cache sets
static_assert(kQueryBlock == 3 * kRegisterRows && kRegisterRows % kLanes == 0);

constexpr uint32_t whole(uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; }
constexpr uint32_t head_inputs(uint32_t head_dim) { return whole(head_dim, kUnitInputs); }
constexpr uint32_t head_columns(uint32_t head_dim) { return whole(head_dim, kRegisterRows); }

// Two BF16 values take a float's place.
uint64_t panel_floats(uint32_t head_dim) {
  return uint64_t{kKeyBlock} * (head_inputs(head_dim) + head_columns(head_dim));
}

// Rows of a product's left side, as parts: [input / 32][row][input % 32].
struct LeftRows {
  uint16_t* high;
  uint16_t* low;
  uint32_t n_inputs;  // whole units
};
DLLM_LANES uint32_t left_at(uint32_t row, uint32_t input) {
  return (input / kUnitInputs * kQueryBlock + row) * kUnitInputs + input % kUnitInputs;
}
struct TileScratch {
  float* scores;  // [kQueryBlock][kScoreStride]
  LeftRows queries;
  LeftRows weights;
  AttentionState state;
};
uint64_t scratch_floats(uint32_t head_dim) {
  return uint64_t{kQueryBlock} *
         (kScoreStride + head_inputs(head_dim) + kKeyBlock + head_columns(head_dim) + kLanes + 1);
}
TileScratch scratch_at(float* memory, uint32_t head_dim) {
  TileScratch work;
  const auto take = [&](uint32_t n) {
    float* const at = memory;
    memory += kQueryBlock * n;
    return at;
  };
  const auto take_rows = [&](uint32_t n) {
    auto* const at = reinterpret_cast<uint16_t*>(take(n));
    return LeftRows{at, at + kQueryBlock * n, n};
  };
  work.scores = take(kScoreStride);
  work.queries = take_rows(head_inputs(head_dim));
  work.weights = take_rows(kKeyBlock);
  work.state.out_stride = head_columns(head_dim);
  work.state.out = take(work.state.out_stride);
  work.state.sums = take(kLanes);
  work.state.max = take(1);
  return work;
}

// Tile register 5 + kTile: a part of 16 rows, where they are among the kTiles x 16.
template <int kTiles, int kTile>
DLLM_LANES void load_left(const uint16_t* rows) {
  if constexpr (kTile < kTiles) load_tile<5 + kTile>(rows + kTile * kPart, kStepBytes);
}
template <int kTiles, int kTile, int kRight>
DLLM_LANES void multiply_left() {
  if constexpr (kTile < kTiles) multiply_brains<kTile, 5 + kTile, kRight>();
}

// c[16 kTiles rows][16 columns] (+)= left times n_units >= 1 units: low high, high high, high low,
// so that a unit's high part is free for the next one early.
template <int kTiles>
void multiply_units(const LeftRows& left, const uint16_t* units, uint32_t n_units, bool add,
                    float* c, uint32_t ldc) {
  const uint64_t bytes = uint64_t{ldc} * sizeof(float);
  float* const rows[3] = {c, c + kRegisterRows * ldc, c + 2 * kRegisterRows * ldc};
  if (add) {
    load_tile<0>(rows[0], bytes);
    if constexpr (kTiles > 1) load_tile<1>(rows[1], bytes);
    if constexpr (kTiles > 2) load_tile<2>(rows[2], bytes);
  } else {
    zero_tile<0>();
    if constexpr (kTiles > 1) zero_tile<1>();
    if constexpr (kTiles > 2) zero_tile<2>();
  }
  constexpr uint32_t kLeftUnit = kQueryBlock * kUnitInputs;
  const uint16_t* high = left.high;
  const uint16_t* low = left.low;
  load_tile<3>(units, kStepBytes);
  load_left<kTiles, 0>(low);
  load_left<kTiles, 1>(low);
  load_left<kTiles, 2>(low);
  for (uint32_t u = 1;; ++u, high += kLeftUnit) {
    multiply_left<kTiles, 0, 3>();
    multiply_left<kTiles, 1, 3>();
    multiply_left<kTiles, 2, 3>();
    load_tile<4>(units + kPart, kStepBytes);
    load_left<kTiles, 0>(high);
    multiply_left<kTiles, 0, 3>();
    load_left<kTiles, 1>(high);
    multiply_left<kTiles, 1, 3>();
    load_left<kTiles, 2>(high);
    multiply_left<kTiles, 2, 3>();
    multiply_left<kTiles, 0, 4>();
    multiply_left<kTiles, 1, 4>();
    multiply_left<kTiles, 2, 4>();
    if (u == n_units) break;
    units += kUnit;
    low += kLeftUnit;
    load_tile<3>(units, kStepBytes);
    load_left<kTiles, 0>(low);
    load_left<kTiles, 1>(low);
    load_left<kTiles, 2>(low);
  }
  store_tile<0>(rows[0], bytes);
  if constexpr (kTiles > 1) store_tile<1>(rows[1], bytes);
  if constexpr (kTiles > 2) store_tile<2>(rows[2], bytes);
}
using MultiplyUnits = void (*)(const LeftRows&, const uint16_t*, uint32_t, bool, float*, uint32_t);
constexpr MultiplyUnits kMultiplyUnits[4] = {nullptr, multiply_units<1>, multiply_units<2>,
                                             multiply_units<3>};

// A unit of 16 keys and 32 dimensions from d on; rows beyond n_keys are zeros.
void pack_key_unit(const AttentionKeys& from, uint32_t key, uint32_t d, uint16_t* unit) {
  alignas(64) uint16_t parts[2][kRegisterRows][kUnitInputs];
  for (uint32_t i = 0; i < kRegisterRows; ++i)
    for (uint32_t j = 0; j < kUnitInputs; j += kLanes) {
      const bool exists = key + i < from.n_keys && d + j < from.head_dim;
      const F x =
          exists ? load_at(from.k + (key + i) * from.stride, d + j, from.head_dim, 0) : splat(0);
      store_parts(x, parts[0][i] + j, parts[1][i] + j);
    }
  for (uint32_t part = 0; part < 2; ++part)
    for (uint32_t i = 0; i < kRegisterRows; i += 8)
      for (uint32_t j = 0; j < kUnitInputs; j += 16) {
        const float* rows[8];  // pairs, moved as floats
        for (uint32_t r = 0; r < 8; ++r)
          rows[r] = reinterpret_cast<const float*>(parts[part][i + r] + j);
        auto* to = reinterpret_cast<float*>(unit + part * kPart + j / 2 * kUnitInputs + 2 * i);
        transpose8(rows, 0, to, kRegisterRows);
      }
}

// A unit of 16 dimensions from d on and 32 keys.
void pack_value_unit(const AttentionKeys& from, uint32_t key, uint32_t d, uint16_t* unit) {
  for (uint32_t i = 0; i < kUnitInputs; i += 2)
    for (uint32_t j = 0; j < kRegisterRows; j += kLanes) {
      BrainParts parts[2];
      for (uint32_t odd = 0; odd < 2; ++odd) {
        const uint32_t row = key + i + odd;
        const bool exists = row < from.n_keys && d + j < from.head_dim;
        parts[odd] = parts_of(exists ? load_at(from.v + row * from.stride, d + j, from.head_dim, 0)
                                     : splat(0));
      }
      uint16_t* to = unit + i * kRegisterRows + 2 * j;
      store_pairs(parts[0].high, parts[1].high, to);
      store_pairs(parts[0].low, parts[1].low, to + kPart);
    }
}

// Asks for rows of a head ahead of their use: they lie too far apart for the processor to guess.
template <int kForWriting>
void fetch_rows(const float* rows, uint64_t stride, uint32_t n_rows, uint32_t head_dim) {
  constexpr uint32_t kLine = 16;
  for (uint32_t r = 0; r < n_rows; ++r)
    for (uint32_t d = 0; d < head_dim; d += kLine)
      __builtin_prefetch(rows + r * stride + d, kForWriting);
}

void pack(const AttentionKeys& from, float* panel) {
  const uint32_t head_units = head_inputs(from.head_dim) / kUnitInputs;
  auto* const keys = reinterpret_cast<uint16_t*>(panel);
  auto* const values = keys + uint64_t{kKeyBlock} * head_inputs(from.head_dim) * 2;
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

// Queries as parts, scaled so that weights are powers of 2; rows up to a whole tile are zeros.
void load_queries(const AttentionQueries& in, const TileScratch& work) {
  const float scale = in.scale * 1.44269504f;  // log2(e)
  for (uint32_t r = 0; r < whole(in.n_rows, kRegisterRows); ++r) {
    for (uint32_t d = 0; d < work.queries.n_inputs; d += kLanes) {
      const bool exists = r < in.n_rows && d < in.head_dim;
      const F x = exists ? load_at(in.q + r * in.stride, d, in.head_dim, 0) * scale : splat(0);
      store_parts(x, work.queries.high + left_at(r, d), work.queries.low + left_at(r, d));
    }
    work.state.max[r] = -kInfinity;
  }
}

// Weights 2^(score - maximum) of the n_keys of a panel, as parts, zeros up to a whole unit.
// Rows of the last tile that are no query hold anything: they only meet their own results.
void weigh_keys(const AttentionQueries& in, uint32_t n_keys, bool is_first,
                const TileScratch& work) {
  for (uint32_t r = 0; r < in.n_rows; ++r) {
    softmax_step<bounded_power, kUnitInputs / kLanes>(
        work.scores + r * kScoreStride, n_keys, is_first, r, work.state,
        [&](uint32_t i, const F* e) {
          store_bounded_parts(e, work.weights.high + left_at(r, i),
                              work.weights.low + left_at(r, i));
        });
  }
}

void attend(const AttentionQueries& in, const AttentionPanels& keys, float* scratch, float* out) {
  const TileScratch work = scratch_at(scratch, in.head_dim);
  const MultiplyUnits multiply = kMultiplyUnits[whole(in.n_rows, kRegisterRows) / kRegisterRows];
  const uint32_t head_units = head_inputs(in.head_dim) / kUnitInputs;
  enter_tiles();
  load_queries(in, work);
  const float* panel = keys.first;
  for (uint32_t key = 0; key < keys.n_keys; key += kKeyBlock, panel += keys.stride) {
    const uint32_t n_keys = keys.n_keys - key < kKeyBlock ? keys.n_keys - key : kKeyBlock;
    const auto* units = reinterpret_cast<const uint16_t*>(panel);
    for (uint32_t i = 0; i < n_keys; i += kRegisterRows, units += head_units * kUnit)
      multiply(work.queries, units, head_units, false, work.scores + i, kScoreStride);
    weigh_keys(in, n_keys, key == 0, work);
    if (key + n_keys == keys.n_keys) fetch_rows<1>(out, in.stride, in.n_rows, in.head_dim);
    units = reinterpret_cast<const uint16_t*>(panel) +
            uint64_t{kKeyBlock} * head_inputs(in.head_dim) * 2;
    const uint32_t n_units = whole(n_keys, kUnitInputs) / kUnitInputs;
    for (uint32_t d = 0; d < in.head_dim; d += kRegisterRows, units += kBlockUnits * kUnit)
      multiply(work.weights, units, n_units, key != 0, work.state.out + d, work.state.out_stride);
  }
  leave_tiles();
  store_results(in, keys.n_keys, work.state, out);
}

constexpr AttentionMath kTileAttention = {kKeyBlock, panel_floats, scratch_floats, pack, attend};

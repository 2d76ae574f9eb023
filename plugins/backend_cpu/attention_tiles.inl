// Attention with AMX BF16 tiles. Included inside an unnamed namespace, after kernels.hpp; needs no
// instruction but those of the tiles, so that a test can run it on any x86-64 processor that
// emulates them.
//
// Both operands of both products are sums of two BF16 values (brain_parts.inl), multiplied as
// high high + high low + low high, in f32. So scores and results are off by about 2^-16 of their
// terms, where plain BF16 would lose 2^-8.
//
// A panel is made of units, what a pair of tile registers takes of 16 columns and 32 inputs: first
// the high parts as pairs of inputs, [input / 2][column][input % 2], then the low ones. Keys are
// [16 keys][32 dimensions] units, values [16 dimensions][32 keys] units. Keys beyond the last are
// zeros up to the end of a unit.
//
// A unit is multiplied with up to three times 16 queries. Tile registers: 0 to 2 sums, 3 and 4 the
// unit's parts, 5 to 7 the queries' (or weights') high parts, then their low ones.

#include "lanes.inl"
// Uses names of the above.
#include "attention_softmax.inl"
#include "brain_parts.inl"
#include "tile_registers.inl"
#include "transpose.inl"

constexpr uint32_t kKeyBlock = 256;
constexpr uint32_t kUnitInputs = 32;
constexpr uint32_t kPart = kUnitInputs * kRegisterRows;  // values of a unit's high or low part
constexpr uint32_t kUnit = 2 * kPart;
constexpr uint32_t kScoreStride = kKeyBlock + kRegisterRows;  // rows in different cache sets
static_assert(kQueryBlock == 3 * kRegisterRows && kRegisterRows % kLanes == 0);

constexpr uint32_t whole(uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; }
constexpr uint32_t head_inputs(uint32_t head_dim) { return whole(head_dim, kUnitInputs); }
constexpr uint32_t head_columns(uint32_t head_dim) { return whole(head_dim, kRegisterRows); }

// Two BF16 values take a float's place.
uint64_t panel_floats(uint32_t head_dim) {
  return uint64_t{kKeyBlock} * (head_inputs(head_dim) + head_columns(head_dim));
}

// Rows of a product's left side, as parts.
struct LeftRows {
  uint16_t* high;  // [kQueryBlock][stride]
  uint16_t* low;
  uint32_t stride;
};
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

template <int kTiles, int kFirst>
DLLM_LANES void load_left(const uint16_t* rows, uint32_t stride) {
  const uint64_t bytes = uint64_t{stride} * sizeof(uint16_t);
  load_tile<kFirst>(rows, bytes);
  if constexpr (kTiles > 1) load_tile<kFirst + 1>(rows + kRegisterRows * stride, bytes);
  if constexpr (kTiles > 2) load_tile<kFirst + 2>(rows + 2 * kRegisterRows * stride, bytes);
}
template <int kTiles, int kRight>
DLLM_LANES void multiply_left() {
  multiply_brains<0, 5, kRight>();
  if constexpr (kTiles > 1) multiply_brains<1, 6, kRight>();
  if constexpr (kTiles > 2) multiply_brains<2, 7, kRight>();
}

// c[16 kTiles rows][16 columns] (+)= left times n_units units.
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
  for (uint32_t u = 0; u < n_units; ++u, units += kUnit) {
    load_tile<3>(units, kStepBytes);
    load_left<kTiles, 5>(left.high + u * kUnitInputs, left.stride);
    multiply_left<kTiles, 3>();
    load_tile<4>(units + kPart, kStepBytes);
    multiply_left<kTiles, 4>();
    load_left<kTiles, 5>(left.low + u * kUnitInputs, left.stride);
    multiply_left<kTiles, 3>();
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

void pack(const AttentionKeys& from, float* panel) {
  auto* units = reinterpret_cast<uint16_t*>(panel);
  for (uint32_t key = 0; key < from.n_keys; key += kRegisterRows)
    for (uint32_t d = 0; d < from.head_dim; d += kUnitInputs, units += kUnit)
      pack_key_unit(from, key, d, units);
  units = reinterpret_cast<uint16_t*>(panel + uint64_t{kKeyBlock} * head_inputs(from.head_dim));
  for (uint32_t d = 0; d < from.head_dim;
       d += kRegisterRows, units += kKeyBlock / kUnitInputs * kUnit)
    for (uint32_t key = 0; key < from.n_keys; key += kUnitInputs)
      pack_value_unit(from, key, d, units + key / kUnitInputs * kUnit);
}

// Scaled queries as parts; rows up to a whole tile are zeros.
void load_queries(const AttentionQueries& in, const TileScratch& work) {
  for (uint32_t r = 0; r < whole(in.n_rows, kRegisterRows); ++r) {
    for (uint32_t d = 0; d < work.queries.stride; d += kLanes) {
      const bool exists = r < in.n_rows && d < in.head_dim;
      const F x = exists ? load_at(in.q + r * in.stride, d, in.head_dim, 0) * in.scale : splat(0);
      const uint32_t at = r * work.queries.stride + d;
      store_parts(x, work.queries.high + at, work.queries.low + at);
    }
    work.state.max[r] = -kInfinity;
  }
}

// Weights e^(score - maximum) of the n_keys of a panel, as parts, zeros up to a whole unit.
// Rows of the last tile that are no query hold anything: they only meet their own results.
void weigh_keys(const AttentionQueries& in, uint32_t n_keys, bool is_first,
                const TileScratch& work) {
  for (uint32_t r = 0; r < in.n_rows; ++r) {
    uint16_t* const high = work.weights.high + r * kKeyBlock;
    uint16_t* const low = work.weights.low + r * kKeyBlock;
    softmax_step(work.scores + r * kScoreStride, n_keys, is_first, r, work.state,
                 [&](uint32_t i, F e) { store_parts(e, high + i, low + i); });
    for (uint32_t i = whole(n_keys, kLanes); i < whole(n_keys, kUnitInputs); i += kLanes)
      store_parts(splat(0), high + i, low + i);
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
    units =
        reinterpret_cast<const uint16_t*>(panel + uint64_t{kKeyBlock} * head_inputs(in.head_dim));
    const uint32_t n_units = whole(n_keys, kUnitInputs) / kUnitInputs;
    for (uint32_t d = 0; d < in.head_dim;
         d += kRegisterRows, units += kKeyBlock / kUnitInputs * kUnit)
      multiply(work.weights, units, n_units, key != 0, work.state.out + d, work.state.out_stride);
  }
  leave_tiles();
  store_results(in, keys.n_keys, work.state, out);
}

constexpr AttentionMath kTileAttention = {kKeyBlock, panel_floats, scratch_floats, pack, attend};

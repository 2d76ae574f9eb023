#include "pack.hpp"

#include <algorithm>
#include <cstring>

#include "dllm/error.hpp"
#include "kernels.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint32_t kVectorBytes = 16;
constexpr std::uint32_t kRowsAtOnce = 16;  // as many as a vector has bytes

// The first or second halves of a and b, lane by lane in turn.
template <typename V>
V zip(V a, V b, bool second) {
  if constexpr (sizeof(a[0]) == 4) {
    return second ? __builtin_shufflevector(a, b, 2, 6, 3, 7)
                  : __builtin_shufflevector(a, b, 0, 4, 1, 5);
  } else if constexpr (sizeof(a[0]) == 2) {
    return second ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                  : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  } else {
    return second ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                            30, 15, 31)
                  : __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                            7, 23);
  }
}

// A square of units, lines of rows to lines of units: zipping vector i with i + half turns
// (vector, lane) into a number whose digits rotate by one; after log2(kLanes) times they have
// changed places.
template <typename Unit>
void transpose(const std::uint8_t* from, std::uint64_t row_bytes, std::uint32_t n_lines,
               std::uint8_t* to) {
  typedef Unit V __attribute__((vector_size(kVectorBytes)));
  constexpr std::uint32_t kLanes = kVectorBytes / sizeof(Unit);
  V v[kLanes];
  for (std::uint32_t i = 0; i < kLanes; ++i) std::memcpy(&v[i], from + i * row_bytes, kVectorBytes);
  for (std::uint32_t stage = 1; stage < kLanes; stage *= 2) {
    V zipped[kLanes];
    for (std::uint32_t i = 0; i < kLanes; ++i)
      zipped[i] = zip(v[i / 2], v[i / 2 + kLanes / 2], i % 2 == 1);
    std::memcpy(v, zipped, sizeof v);
  }
  for (std::uint32_t i = 0; i < n_lines; ++i)
    std::memcpy(to + std::uint64_t{i} * kTileRows * sizeof(Unit), &v[i], kVectorBytes);
}

// One field of n_rows rows, at most kRowsAtOnce. `readable` bytes lie from its start to the end of
// its block, the last of which may be the last of the file.
template <typename Unit>
void pack_units(const std::uint8_t* from, std::uint64_t row_bytes, std::uint32_t n_rows,
                std::uint32_t count, std::uint64_t readable, std::uint8_t* to) {
  constexpr std::uint32_t kLanes = kVectorBytes / sizeof(Unit);
  std::uint32_t unit = 0;
  if (n_rows == kRowsAtOnce)
    for (; unit < count && unit * sizeof(Unit) + kVectorBytes <= readable; unit += kLanes)
      for (std::uint32_t row = 0; row < kRowsAtOnce; row += kLanes)
        transpose<Unit>(from + row * row_bytes + unit * sizeof(Unit), row_bytes,
                        std::min(kLanes, count - unit),
                        to + (unit * kTileRows + row) * sizeof(Unit));
  for (; unit < count; ++unit)
    for (std::uint32_t row = 0; row < n_rows; ++row)
      std::memcpy(to + (std::uint64_t{unit} * kTileRows + row) * sizeof(Unit),
                  from + row * row_bytes + unit * sizeof(Unit), sizeof(Unit));
}

void pack_field(const PackedField& field, std::uint32_t block_bytes, const std::uint8_t* block,
                std::uint64_t row_bytes, std::uint32_t n_rows, std::uint8_t* packed) {
  const std::uint8_t* from = block + field.offset;
  std::uint8_t* to = packed + std::uint64_t{field.offset} * kTileRows;
  const std::uint64_t readable = block_bytes - field.offset;
  switch (field.unit_bytes) {
    case 1:
      return pack_units<std::uint8_t>(from, row_bytes, n_rows, field.count, readable, to);
    case 2:
      return pack_units<std::uint16_t>(from, row_bytes, n_rows, field.count, readable, to);
    default:
      return pack_units<std::uint32_t>(from, row_bytes, n_rows, field.count, readable, to);
  }
}

// A row of blocks that are one unit each, as one block of many units.
BlockLayout joined(const BlockLayout& layout, std::uint32_t& n_blocks) {
  const PackedField& first = layout.fields[0];
  if (first.count * first.unit_bytes != layout.bytes || first.count != 1) return layout;
  const BlockLayout row{layout.bytes * n_blocks, {{0, first.unit_bytes, n_blocks}}};
  n_blocks = 1;
  return row;
}

}  // namespace

BlockLayout layout_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {4, {{0, 4, 1}}};
    case DType::f16:
    case DType::bf16:
      return {2, {{0, 2, 1}}};
    case DType::q4_0:
    case DType::iq4_nl:
      return {18, {{0, 2, 1}, {2, 4, 4}}};  // d, codes
    case DType::q4_1:
      return {20, {{0, 2, 2}, {4, 4, 4}}};  // d, m, codes
    case DType::q5_0:
      return {22, {{0, 2, 1}, {2, 4, 5}}};  // d, fifth bits, codes
    case DType::q5_1:
      return {24, {{0, 2, 2}, {4, 4, 5}}};  // d, m, fifth bits, codes
    case DType::q8_0:
      return {34, {{0, 2, 1}, {2, 4, 8}}};  // d, codes
    case DType::q2_k:
      return {84, {{0, 1, 16}, {16, 4, 16}, {80, 2, 2}}};  // scales, codes, d, dmin
    case DType::q3_k:
      return {110, {{0, 4, 24}, {96, 1, 12}, {108, 2, 1}}};  // third bits, codes, scales, d
    case DType::q4_k:
      return {144, {{0, 2, 2}, {4, 1, 12}, {16, 4, 32}}};  // d, dmin, scales, codes
    case DType::q5_k:
      return {176, {{0, 2, 2}, {4, 1, 12}, {16, 4, 40}}};  // d, dmin, scales, fifth bits, codes
    case DType::q6_k:
      return {210, {{0, 4, 48}, {192, 1, 16}, {208, 2, 1}}};  // codes, top bits, scales, d
    case DType::iq4_xs:
      return {136, {{0, 2, 2}, {4, 1, 4}, {8, 4, 32}}};  // d, scales (high, low), codes
    default:
      break;
  }
  DLLM_ASSERT(!"a type with no packed layout");
  return {};
}

void pack_blocks(const BlockLayout& layout, const std::uint8_t* rows, std::uint64_t row_bytes,
                 std::uint32_t n_rows, std::uint32_t n_blocks, std::uint8_t* to) {
  const BlockLayout blocks = joined(layout, n_blocks);
  for (std::uint32_t row = 0; row < n_rows; row += kRowsAtOnce)
    for (std::uint32_t i = 0; i < n_blocks; ++i)
      for (const PackedField& field : blocks.fields) {
        if (field.unit_bytes == 0) break;
        pack_field(field, blocks.bytes, rows + row * row_bytes + std::uint64_t{i} * blocks.bytes,
                   row_bytes, std::min(kRowsAtOnce, n_rows - row),
                   to + std::uint64_t{i} * blocks.bytes * kTileRows + row * field.unit_bytes);
      }
}

}  // namespace dllm::cpu

#include "pack.hpp"

#include <cstring>

#include "dllm/error.hpp"
#include "kernels.hpp"

namespace dllm::cpu {
namespace {

// Reads along the row and writes with a stride: the packed block stays in the first-level cache,
// while rows a power of two apart would evict each other.
template <std::uint32_t kUnit>
void pack_units(const std::uint8_t* from, std::uint32_t count, std::uint8_t* to) {
  for (std::uint32_t unit = 0; unit < count; ++unit)
    std::memcpy(to + std::uint64_t{unit} * kUnit * kTileRows, from + unit * kUnit, kUnit);
}

void pack_field(const PackedField& field, const std::uint8_t* block, std::uint32_t row,
                std::uint8_t* packed) {
  const std::uint8_t* from = block + field.offset;
  std::uint8_t* to = packed + std::uint64_t{field.offset} * kTileRows + row * field.unit_bytes;
  switch (field.unit_bytes) {
    case 1:
      return pack_units<1>(from, field.count, to);
    case 2:
      return pack_units<2>(from, field.count, to);
    default:
      return pack_units<4>(from, field.count, to);
  }
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
  for (std::uint32_t row = 0; row < n_rows; ++row)
    for (std::uint32_t i = 0; i < n_blocks; ++i)
      for (const PackedField& field : layout.fields) {
        if (field.unit_bytes == 0) break;
        pack_field(field, rows + row * row_bytes + std::uint64_t{i} * layout.bytes, row,
                   to + std::uint64_t{i} * layout.bytes * kTileRows);
      }
}

}  // namespace dllm::cpu

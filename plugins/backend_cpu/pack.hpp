// The packed form of weights: GGUF's blocks of 32 rows with every field turned sideways.
//
// A block of kTileRows rows x kBlockCols inputs is a sequence of `32 rows of one GGUF block each`
// (one for the K types, eight for those of 32 inputs). In it each field of the GGUF block is cut
// into units, and a unit of all 32 rows lies side by side:
//
//   GGUF, Q4_K, one row:  d dmin | 12 bytes of scales | 128 bytes of codes
//   packed, 32 rows:      d[32] dmin[32] | scales[12][32] | codes[32][32] of 4 bytes
//
// so the field at byte `o` of the GGUF block starts at byte 32 * o of the packed one, bit for bit
// the same data, the same size, and unpacking needs no transposition: a vector is the same four
// inputs of 16 rows (CodeTile), or one scale of all rows. Codes have units of 4 bytes, binary16
// fields units of 2, packed scales single bytes, F32, F16 and BF16 weights their own size. Rows
// that the last tile lacks are zero bytes, which every type decodes to 0.
#pragma once

#include <cstdint>

#include "dllm/dtype.hpp"

namespace dllm::cpu {

/// `count` units that start at byte `offset` of a GGUF block.
struct PackedField {
  std::uint32_t offset = 0;
  std::uint32_t unit_bytes = 0;
  std::uint32_t count = 0;
};

struct BlockLayout {
  std::uint32_t bytes = 0;  ///< of a GGUF block
  PackedField fields[4];    ///< in order, covering the block; unit_bytes 0 ends the list
};

/// Of a type that can be decoded.
BlockLayout layout_of(DType dtype);

/// Packs `n_blocks` consecutive GGUF blocks of n_rows (at most kTileRows) rows that are row_bytes
/// apart to `to`: kTileRows * n_blocks * layout.bytes bytes, which are zero where n_rows is less.
void pack_blocks(const BlockLayout& layout, const std::uint8_t* rows, std::uint64_t row_bytes,
                 std::uint32_t n_rows, std::uint32_t n_blocks, std::uint8_t* to);

}  // namespace dllm::cpu

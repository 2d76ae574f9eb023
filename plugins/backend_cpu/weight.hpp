// What the CPU backend keeps of a weight.
//
// Matrix      GGUF's own blocks, turned so that what one work item reads is contiguous: tiles of
//             kTileRows rows; inside a tile block after block of kBlockCols inputs (the last may
//             be smaller); inside a block as pack.hpp says. Same size as in the file but for the
//             rows that the last tile lacks.
// Vector      norms and biases, decoded to f32 once
// Table       an embedding: stays in the mapped file, rows are decoded on look-up
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "arena.hpp"
#include "dllm/backend.hpp"
#include "dllm/gguf.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "pack.hpp"

namespace dllm::cpu {

/// The code type of a block-quantised type; nullopt where products need f32 weights.
std::optional<CodeType> code_type(DType dtype);

class Matrix final : public Weight {
 public:
  /// Packs the tensor tile by tile and lets go of the mapping's pages as it goes.
  Matrix(const GgufFile& file, const TensorInfo& tensor, Arena& arena);

  std::uint32_t n_tiles() const noexcept { return (n_rows() + kTileRows - 1) / kTileRows; }
  std::uint32_t n_blocks() const noexcept { return (n_cols() + kBlockCols - 1) / kBlockCols; }
  std::uint32_t tile_rows(std::uint32_t tile) const noexcept;
  WeightBlock block(std::uint32_t tile, std::uint32_t index) const noexcept;
  /// Of one row in a block of kBlockCols inputs.
  std::uint64_t block_bytes() const noexcept { return block_bytes_; }
  std::optional<CodeType> codes() const noexcept { return codes_; }
  std::uint64_t stored_bytes() const noexcept { return memory_.bytes(); }

 private:
  void pack_tile(const std::uint8_t* rows, std::uint32_t tile);

  std::optional<CodeType> codes_;
  BlockLayout layout_;
  std::uint64_t row_bytes_ = 0;    // of a whole row
  std::uint64_t block_bytes_ = 0;  // of kBlockCols inputs of a row
  AlignedMemory memory_;
};

class Vector final : public Weight {
 public:
  Vector(const GgufFile& file, const TensorInfo& tensor);
  const float* values() const noexcept { return memory_.as<float>(); }

 private:
  AlignedMemory memory_;
};

class Table final : public Weight {
 public:
  Table(std::shared_ptr<const GgufFile> file, const TensorInfo& tensor);
  /// out: [n_cols].
  void decode(std::uint32_t row, float* out) const;

 private:
  std::shared_ptr<const GgufFile> file_;  // keeps bytes_ mapped
  std::span<const std::byte> bytes_;
  std::uint64_t row_bytes_ = 0;
};

}  // namespace dllm::cpu

#include "weight.hpp"

#include <algorithm>
#include <cstring>

#include "dllm/error.hpp"
#include "dllm/quant.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint64_t kReleaseBytes = 64u << 20;  // mapped pages alive at once during a copy

std::uint32_t rows_of(const TensorInfo& tensor) {
  return tensor.shape.size() < 2 ? 1 : static_cast<std::uint32_t>(tensor.shape[1]);
}

std::uint32_t cols_of(const TensorInfo& tensor) {
  return static_cast<std::uint32_t>(tensor.shape[0]);
}

}  // namespace

std::optional<CodeType> code_type(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q8_0:
    case DType::q2_k:
    case DType::q3_k:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
    case DType::iq4_nl:
    case DType::iq4_xs:
      return static_cast<CodeType>(dtype);
    default:
      return std::nullopt;
  }
}

Matrix::Matrix(const GgufFile& file, const TensorInfo& tensor, Arena& arena)
    : Weight(tensor.name, tensor.dtype, rows_of(tensor), cols_of(tensor)),
      codes_(code_type(tensor.dtype)),
      layout_(layout_of(tensor.dtype)),
      row_bytes_(row_bytes(tensor.dtype, n_cols())),
      block_bytes_(row_bytes(tensor.dtype, kBlockCols)),
      memory_(n_tiles() * kTileRows * row_bytes_, "weight " + tensor.name) {
  const auto* source = reinterpret_cast<const std::uint8_t*>(file.data(tensor).data());
  const std::uint64_t tile_bytes = kTileRows * row_bytes_;
  const auto tiles_at_once =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(kReleaseBytes / tile_bytes, 1));
  // A hand-out of about 256 KiB takes tens of microseconds.
  const auto grain =
      static_cast<std::uint32_t>(std::max<std::uint64_t>((256u << 10) / tile_bytes, 1));
  for (std::uint32_t first = 0; first < n_tiles(); first += tiles_at_once) {
    const std::uint32_t count = std::min(tiles_at_once, n_tiles() - first);
    arena.for_each(count, grain, [&](std::uint32_t i, unsigned) {
      const std::uint32_t tile = first + i;
      pack_tile(source + tile * tile_bytes, tile);
    });
    file.release_pages(tensor);
  }
}

std::uint32_t Matrix::tile_rows(std::uint32_t tile) const noexcept {
  return std::min(kTileRows, n_rows() - tile * kTileRows);
}

WeightBlock Matrix::block(std::uint32_t tile, std::uint32_t index) const noexcept {
  const std::uint64_t offset = tile * row_bytes_ + index * block_bytes_;  // of one row
  return {memory_.as<std::uint8_t>() + kTileRows * offset,
          std::min(kBlockCols, n_cols() - index * kBlockCols)};
}

void Matrix::pack_tile(const std::uint8_t* rows, std::uint32_t tile) {
  const auto gguf_blocks = static_cast<std::uint32_t>(row_bytes_ / layout_.bytes);
  pack_blocks(layout_, rows, row_bytes_, tile_rows(tile), gguf_blocks,
              memory_.as<std::uint8_t>() + tile * kTileRows * row_bytes_);
}

Vector::Vector(const GgufFile& file, const TensorInfo& tensor)
    : Weight(tensor.name, tensor.dtype, 1, cols_of(tensor)),
      memory_(n_cols() * sizeof(float), "vector " + tensor.name) {
  decode_row(tensor.dtype, file.data(tensor), {memory_.as<float>(), n_cols()});
  file.release_pages(tensor);
}

Table::Table(std::shared_ptr<const GgufFile> file, const TensorInfo& tensor)
    : Weight(tensor.name, tensor.dtype, rows_of(tensor), cols_of(tensor)),
      file_(std::move(file)),
      bytes_(file_->data(tensor)),
      row_bytes_(row_bytes(tensor.dtype, n_cols())) {}

void Table::decode(std::uint32_t row, float* out) const {
  decode_row(dtype(), bytes_.subspan(row * row_bytes_, row_bytes_), {out, n_cols()});
}

}  // namespace dllm::cpu

#include "weight_sizes.hpp"

#include <algorithm>

#include "dllm/quant.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint64_t kPieceBytes = 64u << 20;  // raw rows on the device at once
constexpr std::uint64_t kPageBytes = 2u << 20;    // the driver maps device memory in pages of 2 MiB

std::uint64_t allocated(std::uint64_t bytes) {
  return bytes < kPageBytes ? bytes : (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

bool is_packed(const PlannedImport& each) {
  return each.role != WeightRole::embedding && each.tensor->shape.size() == 2 &&
         form_of(each.tensor->dtype).has_value();
}

}  // namespace

std::uint32_t rows_of(const TensorInfo& tensor) {
  return tensor.shape.size() < 2 ? 1 : static_cast<std::uint32_t>(tensor.shape[1]);
}

std::uint32_t cols_of(const TensorInfo& tensor) {
  return static_cast<std::uint32_t>(tensor.shape[0]);
}

Packed packed_shape(const TensorInfo& tensor) {
  Packed packed;
  packed.form = *form_of(tensor.dtype);
  packed.n_rows = rows_of(tensor);
  packed.n_cols = cols_of(tensor);
  return packed;
}

Upload upload_of(const TensorInfo& tensor) {
  Upload upload;
  upload.row_bytes = dllm::row_bytes(tensor.dtype, cols_of(tensor));
  upload.piece_rows = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(kPieceBytes / (upload.row_bytes * kBlockRows), 1) * kBlockRows);
  upload.buffer_bytes = std::min(upload.piece_rows, rows_of(tensor)) * upload.row_bytes;
  return upload;
}

std::uint64_t room_needed(std::span<const PlannedImport> imports, Products products) {
  std::uint64_t weights = 0;
  std::uint64_t buffer = 0;
  std::uint64_t source = 0;
  for (const PlannedImport& each : imports) {
    if (!is_packed(each)) {
      weights += allocated(each.tensor->bytes);  // as they are in the file: tables, F32 vectors
      continue;
    }
    const Packed packed = packed_shape(*each.tensor);
    if (way_of(products, *each.tensor, each.role) == Way::int8) {
      weights +=
          allocated(packed.int8_rows() * kInt8Cols) + allocated(packed.int8_rows() * sizeof(float));
      source = std::max(source, allocated(packed.bytes()));
    } else {
      weights += allocated(packed.bytes());
    }
    buffer = std::max(buffer, upload_of(*each.tensor).buffer_bytes);
  }
  return weights + allocated(buffer) + source;
}

std::uint64_t room_available(const DeviceFree& memory, std::uint64_t limit) {
  if (limit == 0) return memory.free_bytes;
  const std::uint64_t used = memory.total_bytes - memory.free_bytes;
  return std::min(memory.free_bytes, limit - std::min(limit, used));
}

}  // namespace dllm::cuda

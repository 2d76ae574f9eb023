// Device memory that weights take, known before any of it is taken. Nothing here calls CUDA.
#pragma once

#include <cstdint>
#include <span>

#include "device_memory.hpp"
#include "dllm/backend.hpp"
#include "dllm/gguf.hpp"
#include "packed.hpp"
#include "products.hpp"

namespace dllm::cuda {

/// Rows and columns of a tensor; a vector is one row.
std::uint32_t rows_of(const TensorInfo& tensor);
std::uint32_t cols_of(const TensorInfo& tensor);

/// The packed form of a matrix whose type has one, before it has memory.
Packed packed_shape(const TensorInfo& tensor);

/// How a matrix is uploaded: raw rows, so many at once, through a buffer that is given back before
/// the first step.
struct Upload {
  std::uint64_t row_bytes = 0;
  std::uint32_t piece_rows = 0;    // a multiple of kBlockRows, may be more than there are
  std::uint64_t buffer_bytes = 0;  // of the largest piece
};
Upload upload_of(const TensorInfo& tensor);

/// What importing all of these allocates: each weight for good, and the largest upload buffer.
/// Allocations of a page of the device or more are rounded up to whole pages. Of matrices that
/// become int8: int8 weights, and the largest packed one, which they are made from one after the
/// other.
std::uint64_t room_needed(std::span<const PlannedImport> imports,
                          Products products = Products::f16);

/// How much of the device's memory may be taken where what is in use, by others too, has to stay
/// below `limit` bytes; 0: no limit.
std::uint64_t room_available(const DeviceFree& memory, std::uint64_t limit);

}  // namespace dllm::cuda

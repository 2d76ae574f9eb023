// What the CUDA backend keeps of a weight.
//
// Matrix   packed for tensor cores (packed.hpp), uploaded once
// Vector   norms and biases, f32
// Table    an embedding: GGUF's own rows, decoded on look-up
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device_memory.hpp"
#include "dllm/backend.hpp"
#include "dllm/gguf.hpp"
#include "packed.hpp"
#include "products.hpp"
#include "weight_sizes.hpp"

namespace dllm::cuda {

/// Staging for uploads: a device copy of a piece of raw rows. Lives while weights are imported.
struct Staging {
  DeviceMemory raw;
  DeviceMemory range;  // a WeightRange
};

class Matrix final : public Weight {
 public:
  /// Uploads the tensor in pieces, packs each on the device, lets go of the mapping's pages.
  /// For products of int8 it keeps int8 weights instead of the packed ones they are made from.
  Matrix(const GgufFile& file, const TensorInfo& tensor, Way way, std::uint32_t step_cols,
         Staging& staging, cudaStream_t stream);
  const Packed& packed() const noexcept { return packed_; }

 private:
  void keep_int8(std::uint32_t step_cols, cudaStream_t stream);

  DeviceMemory memory_;        // of packed units, or of int8 codes
  DeviceMemory steps_memory_;  // of the latter
  Packed packed_;
};

class Vector final : public Weight {
 public:
  Vector(const GgufFile& file, const TensorInfo& tensor, cudaStream_t stream);
  const float* values() const noexcept { return memory_.as<float>(); }

 private:
  DeviceMemory memory_;
};

class Table final : public Weight {
 public:
  Table(const GgufFile& file, const TensorInfo& tensor, cudaStream_t stream);
  const std::uint8_t* rows() const noexcept { return memory_.as<std::uint8_t>(); }
  std::uint64_t row_bytes() const noexcept { return row_bytes_; }

 private:
  DeviceMemory memory_;
  std::uint64_t row_bytes_;
};

// Kernels (pack.cu).

/// What a matrix's weights reach.
struct WeightRange {
  float largest = 0;  // an upper bound of |scale| times the largest code
  float square = 0;   // of the longest row's length
};

/// Raises *range to that of `n_rows` more raw rows.
void launch_range(DType dtype, const std::uint8_t* raw, std::uint64_t row_bytes,
                  std::uint32_t n_rows, std::uint32_t n_cols, WeightRange* range,
                  cudaStream_t stream);
/// Packs raw rows [first_row, first_row + n_rows) (first_row a multiple of 64) into `to`, whose
/// pointers are written through. `factor` multiplies scales (or weights).
void launch_pack(DType dtype, const std::uint8_t* raw, std::uint64_t row_bytes,
                 std::uint32_t first_row, std::uint32_t n_rows, float factor, const Packed& to,
                 cudaStream_t stream);

}  // namespace dllm::cuda

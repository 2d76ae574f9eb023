// Products of a prepared input with packed matrices, on tensor cores.
//
//   out[r, o] = sum_k W[o, k] x[r, k]      f16 operands, f32 sums
//
// The input is a panel: binary16 rows, each divided by a power of two of its own so that nothing
// leaves binary16's range; results are multiplied back. Order of accumulation of an element: inputs
// ascending in steps of 16, then parts of the input (split, chosen from the shapes of the matrices
// that are multiplied together and the device alone) in order. It never depends on the number of
// rows.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <span>

#include "device_rows.hpp"
#include "packed.hpp"
#include "products.hpp"

namespace dllm::cuda {

/// An input prepared for products. Device pointers, borrowed.
///
/// It lies as shared memory wants it, so that a tile of rows is one contiguous copy: blocks of 64
/// inputs, each holding all rows of 128 bytes; in row r the 16-byte chunk c is at place c ^ (r % 8)
/// (128-byte swizzle, so that the eight rows of an 8 x 8 matrix come from different banks).
struct Panel {
  static constexpr std::uint32_t kSpareRows = 256;  // a tile may be read past the last row

  __half* values = nullptr;    // halves() of them; 0 beyond n_cols, anything beyond n_rows
  float* row_scale = nullptr;  // [first_row + n_rows], powers of two
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
  std::uint32_t padded_rows = 0;  // of a block: all rows, rounded up to 8
  std::uint32_t first_row = 0;    // the product takes rows [first_row, first_row + n_rows)

  __host__ __device__ static constexpr std::uint32_t padded(std::uint32_t rows) {
    return (rows + 7) / 8 * 8;
  }
  /// Inputs rounded up to whole blocks.
  __host__ __device__ static constexpr std::uint32_t padded_cols(std::uint32_t cols) {
    return (cols + kUnitCols - 1) / kUnitCols * kUnitCols;
  }
  static constexpr std::uint64_t halves(std::uint64_t rows, std::uint32_t cols) {
    return (std::uint64_t{padded(static_cast<std::uint32_t>(rows))} * padded_cols(cols)) +
           kSpareRows * kUnitCols;
  }
  /// Place of input k of a row; eight inputs from a multiple of 8 are together.
  __host__ __device__ std::uint64_t at(std::uint32_t row, std::uint32_t k) const {
    return (static_cast<std::uint64_t>(k / kUnitCols) * padded_rows + row) * kUnitCols +
           ((k / 8 % 8) ^ (row % 8)) * 8 + k % 8;
  }
};

enum class Store : std::uint8_t { replace, add };

struct GemmOut {
  float* to = nullptr;  // [n_rows][stride]
  std::uint64_t stride = 0;
  const float* bias = nullptr;  // [weight rows] or null
  Store store = Store::replace;
};

/// One of the matrices that are multiplied with the same input in one go.
struct Product {
  Packed weight;
  GemmOut out;
};
constexpr std::uint32_t kMostProducts = 3;

struct GemmDevice {
  std::uint32_t n_multiprocessors = 1;
  bool has_warpgroups = false;  // compute capability 9.0
};

/// Floats that the parts of one call's products take, of up to `n_rows` input rows.
std::uint64_t gemm_work_floats(const GemmDevice& device, std::uint64_t n_rows);

/// The rows of a call's results, in order, and what is to be added to them: parts of split products
/// that the call left in its work memory.
using GemmResults = std::array<SummedRows, kMostProducts>;

/// Whether launch_gated() can take the two. It depends on them and the device alone.
bool gates_inside(const Packed& gate, const Packed& up, const GemmDevice& device);
/// products = silu(gate x) * (up x), a panel of as many rows as `x`, whose row scales are there
/// already (ProductScale, panels.hpp).
void launch_gated(const Packed& gate, const Packed& up, const Panel& x, const Panel& products,
                  const GemmDevice& device, cudaStream_t stream);

/// At most kMostProducts, of equally many inputs and one kind of store.
[[nodiscard]] GemmResults launch_gemm(std::span<const Product> products, const Panel& panel,
                                      float* work, const GemmDevice& device, cudaStream_t stream);

}  // namespace dllm::cuda

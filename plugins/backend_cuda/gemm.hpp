// Products of a prepared input with a packed matrix, on tensor cores.
//
//   out[r, o] = sum_k W[o, k] x[r, k]      f16 operands, f32 sums
//
// The input is a panel: binary16 rows, each divided by a power of two of its own so that nothing
// leaves binary16's range; results are multiplied back. Order of accumulation of an element: inputs
// ascending in steps of 16, then parts of the input (split, chosen from the weight's shape and the
// device alone) in order. It never depends on the number of rows.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "packed.hpp"

namespace dllm::cuda {

/// An input prepared for products. Device pointers, borrowed.
struct Panel {
  __half* values = nullptr;    // [n_rows][stride], 0 beyond n_cols
  float* row_scale = nullptr;  // [n_rows], powers of two
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
  std::uint32_t stride = 0;  // n_cols rounded up to kUnitCols
};

enum class Store : std::uint8_t { replace, add };

struct GemmOut {
  float* to = nullptr;  // [n_rows][stride]
  std::uint64_t stride = 0;
  const float* bias = nullptr;  // [weight rows] or null
  Store store = Store::replace;
};

/// Into how many parts the inputs are split, so that a narrow matrix fills the device.
std::uint32_t gemm_splits(const Packed& weight, std::uint32_t n_multiprocessors);

/// Floats of work space a product with `n_rows` inputs needs.
std::uint64_t gemm_work_floats(const Packed& weight, std::uint32_t n_rows,
                               std::uint32_t n_multiprocessors);

/// `work`: gemm_work_floats() floats, used by one product at a time.
void launch_gemm(const Packed& weight, const Panel& panel, const GemmOut& out, float* work,
                 std::uint32_t n_multiprocessors, cudaStream_t stream);

}  // namespace dllm::cuda

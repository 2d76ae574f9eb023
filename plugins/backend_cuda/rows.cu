// Look-up and copies. A block owns one row of the output, or of a look-up 256 columns of it.
#include "block_codes.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "rows.hpp"

namespace dllm::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kEmbedThreads = 256;

__global__ void embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                      std::uint32_t n_table_rows, const std::int32_t* ids, Rows out) {
  wait_for_predecessor();
  let_successor_start();
  const std::int32_t id = ids[blockIdx.x];
  const std::uint32_t k = blockIdx.y * blockDim.x + threadIdx.x;
  if (k >= out.n_cols) return;
  const bool valid = id >= 0 && static_cast<std::uint32_t>(id) < n_table_rows;
  out.values[static_cast<std::uint64_t>(blockIdx.x) * out.n_cols + k] =
      valid ? row_value(dtype, table + id * row_bytes, k) : nanf("");
}

__global__ void copy_rows(Rows from, const std::int32_t* rows, Rows to) {
  wait_for_predecessor();
  let_successor_start();
  const float* source = from.values + static_cast<std::uint64_t>(rows[blockIdx.x]) * from.n_cols;
  float* target = to.values + static_cast<std::uint64_t>(blockIdx.x) * to.n_cols;
  for (std::uint32_t k = threadIdx.x; k < to.n_cols; k += blockDim.x) target[k] = source[k];
}

}  // namespace

void launch_embed(DType dtype, const std::uint8_t* table, std::uint64_t row_bytes,
                  std::uint32_t n_table_rows, const std::int32_t* ids, Rows out,
                  cudaStream_t stream) {
  const dim3 grid(out.n_rows, (out.n_cols + kEmbedThreads - 1) / kEmbedThreads);
  launch("launching embed", embed, grid, kEmbedThreads, 0, stream, dtype, table, row_bytes,
         n_table_rows, ids, out);
}

void launch_copy_rows(Rows from, const std::int32_t* rows, Rows to, cudaStream_t stream) {
  launch("launching copy_rows", copy_rows, to.n_rows, kThreads, 0, stream, from, rows, to);
}

const void* rows_kernel() { return reinterpret_cast<const void*>(copy_rows); }

}  // namespace dllm::cuda

#include <algorithm>

#include "kernel_loading.hpp"
#include "launch.cuh"
#include "sums.cuh"
#include "sums.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kCols = 8;  // of a thread

struct Jobs {
  SummedRows job[kMostProducts];
};

// A thread owns eight neighbouring columns of row blockIdx.x; blockIdx.z is the job.
__global__ void add_sums(const __grid_constant__ Jobs jobs) {
  wait_for_predecessor();
  let_successor_start();
  const auto& [rows, sums] = jobs.job[blockIdx.z];
  const std::uint32_t row = blockIdx.x;
  const std::uint32_t col = kCols * (blockIdx.y * kThreads + threadIdx.x);
  if (col >= rows.n_cols) return;
  const float scale = scale_of(sums, row);
  float* to = rows.values + static_cast<std::uint64_t>(row) * rows.n_cols + col;
  const std::uint32_t n = min(rows.n_cols - col, kCols);
  float before[kCols];
  float bias[kCols];
#pragma unroll
  for (std::uint32_t i = 0; i < kCols; ++i) {
    before[i] = sums.adds && i < n ? to[i] : 0;
    bias[i] = sums.bias && i < n ? sums.bias[col + i] : 0;
  }
  const Eight total = total_of<0>(sums, sums.parts + sums.place(row, col));
#pragma unroll
  for (std::uint32_t i = 0; i < kCols; ++i)
    if (i < n) to[i] = before[i] + (total.values[i] * scale + bias[i]);
}

}  // namespace

void launch_add_sums(std::span<const SummedRows> all, cudaStream_t stream) {
  for (; !all.empty(); all = all.subspan(std::min<std::size_t>(all.size(), kMostProducts))) {
    Jobs jobs;
    const std::size_t n = std::min<std::size_t>(all.size(), kMostProducts);
    std::uint32_t n_cols = 0;
    for (std::size_t i = 0; i < n; ++i) {
      jobs.job[i] = all[i];
      n_cols = std::max(n_cols, all[i].rows.n_cols);
    }
    constexpr std::uint32_t kBlock = kCols * kThreads;
    const dim3 grid(all[0].rows.n_rows, (n_cols + kBlock - 1) / kBlock, static_cast<unsigned>(n));
    launch("adding sums of products", add_sums, grid, kThreads, 0, stream, jobs);
  }
}

const void* sums_kernel() { return reinterpret_cast<const void*>(add_sums); }

}  // namespace dllm::cuda

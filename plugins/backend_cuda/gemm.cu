// Splitting narrow products, and adding their parts.
#include <algorithm>

#include "cuda_check.hpp"
#include "gemm.hpp"
#include "gemm_args.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kMostSplits = 8;
constexpr std::uint32_t kLeastUnits = 4;  // of a part: below, filling the pipeline dominates

// Adds the parts in order and finishes an element.
__global__ void add_partials(GemmArgs a, std::uint32_t n_splits) {
  const std::uint32_t out = blockIdx.y * blockDim.x + threadIdx.x;
  const std::uint32_t token = blockIdx.x;
  if (out >= a.weight.n_rows) return;
  float sum = 0;
  for (std::uint32_t s = 0; s < n_splits; ++s)
    sum += a.partials[(static_cast<std::uint64_t>(s) * a.panel.n_rows + token) * a.weight.n_rows +
                      out];
  float value = sum * a.weight.out_scale * a.panel.row_scale[token];
  if (a.bias) value += a.bias[out];
  float* to = a.to + token * a.stride + out;
  *to = a.store == Store::add ? *to + value : value;
}

}  // namespace

std::uint32_t gemm_splits(const Packed& weight, std::uint32_t n_multiprocessors) {
  const std::uint32_t row_blocks = (weight.n_rows + kGemmBlockRows - 1) / kGemmBlockRows;
  const std::uint32_t wanted = n_multiprocessors / std::max(row_blocks, 1u);
  return std::clamp(std::min(wanted, weight.n_units() / kLeastUnits), 1u, kMostSplits);
}

std::uint64_t gemm_work_floats(const Packed& weight, std::uint32_t n_rows,
                               std::uint32_t n_multiprocessors) {
  const std::uint32_t splits = gemm_splits(weight, n_multiprocessors);
  return splits == 1 ? 0 : std::uint64_t{splits} * n_rows * weight.n_rows;
}

void launch_gemm(const Packed& weight, const Panel& panel, const GemmOut& out, float* work,
                 std::uint32_t n_multiprocessors, cudaStream_t stream) {
  const std::uint32_t splits = gemm_splits(weight, n_multiprocessors);
  const GemmArgs args = {weight,
                         panel,
                         out.to,
                         out.stride,
                         out.bias,
                         splits == 1 ? nullptr : work,
                         (weight.n_units() + splits - 1) / splits,
                         out.store};
  launch_gemm_kernel(args, splits, stream);
  if (splits == 1) return;
  add_partials<<<dim3(panel.n_rows, (weight.n_rows + 255) / 256), 256, 0, stream>>>(args, splits);
  launch_check("launching add_partials");
}

}  // namespace dllm::cuda

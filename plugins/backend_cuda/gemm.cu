// Grouping matrices, splitting narrow products, and adding their parts.
#include <algorithm>

#include "cuda_check.hpp"
#include "dllm/error.hpp"
#include "gemm.hpp"
#include "gemm_args.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kMostSplits = 8;
constexpr std::uint32_t kLeastUnits = 4;  // of a part: below, filling the pipeline dominates

// Four neighbouring columns of a row: adds the parts in order and finishes them.
__global__ void add_partials(GemmArgs a) {
  const std::uint32_t col = 4 * (blockIdx.y * blockDim.x + threadIdx.x);
  const std::uint32_t n_cols = a.n_blocks * kBlockRows;
  const std::uint32_t row = blockIdx.x;
  if (col >= n_cols) return;
  const auto* from =
      reinterpret_cast<const float4*>(a.partials + static_cast<std::uint64_t>(row) * n_cols + col);
  float4 sum = *from;
  for (std::uint32_t s = 1; s < a.n_splits; ++s) {
    from += static_cast<std::uint64_t>(a.panel.n_rows) * n_cols / 4;
    const float4 more = *from;
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  const GemmPart& part = a.part_of(col / kBlockRows);
  const float scale = part.weight.out_scale * a.panel.row_scale[a.panel.first_row + row];
  const float values[4] = {sum.x, sum.y, sum.z, sum.w};
  const std::uint32_t first = col - part.first_col;
  float* to = part.to + row * part.stride + first;
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    if (first + i >= part.weight.n_rows) return;
    float value = values[i] * scale;
    if (part.bias) value += part.bias[first + i];
    to[i] = a.store == Store::add ? to[i] + value : value;
  }
}

std::uint32_t ceil_div(std::uint32_t n, std::uint32_t by) { return (n + by - 1) / by; }

// Into how many parts the inputs are split, so that a narrow matrix fills the device. Splits never
// make more tiles than there are multiprocessors: gemm_work_floats() counts on it.
std::uint32_t splits_of(const GemmArgs& args, const GemmDevice& device) {
  const std::uint32_t tile = device.has_warpgroups ? kGemmRowsSm90 : kGemmRowsSm80;
  const std::uint32_t row_tiles = ceil_div(args.n_blocks * kBlockRows, tile);
  const std::uint32_t wanted = device.n_multiprocessors / std::max(row_tiles, 1u);
  return std::clamp(std::min(wanted, args.n_units() / kLeastUnits), 1u, kMostSplits);
}

void launch_group(std::span<const Product> products, const Panel& panel, float* work,
                  const GemmDevice& device, cudaStream_t stream) {
  GemmArgs args = {};
  args.panel = panel;
  args.store = products[0].out.store;
  for (const Product& each : products) {
    DLLM_ASSERT(each.weight.n_cols == panel.n_cols && each.out.store == args.store);
    args.parts[args.n_parts++] = {each.weight, each.out.to, each.out.stride, each.out.bias,
                                  args.n_blocks * kBlockRows};
    args.n_blocks += each.weight.n_blocks();
  }
  args.n_splits = splits_of(args, device);
  args.units_per_split = ceil_div(args.n_units(), args.n_splits);
  args.n_splits = ceil_div(args.n_units(), args.units_per_split);
  if (args.n_splits > 1) args.partials = work;
  if (device.has_warpgroups) {
    launch_gemm_sm90(args, device, stream);
  } else {
    launch_gemm_sm80(args, stream);
  }
  if (args.n_splits == 1) return;
  add_partials<<<dim3(panel.n_rows, ceil_div(args.n_blocks * kBlockRows, 1024)), 256, 0, stream>>>(
      args);
  launch_check("launching add_partials");
}

}  // namespace

std::uint64_t gemm_work_floats(const GemmDevice& device) {
  return std::uint64_t{device.n_multiprocessors} * std::max(kGemmRowsSm80, kGemmRowsSm90);
}

void launch_gemm(std::span<const Product> products, const Panel& panel, float* work,
                 const GemmDevice& device, cudaStream_t stream) {
  DLLM_ASSERT(!products.empty() && products.size() <= kMostProducts);
  if (device.has_warpgroups) return launch_group(products, panel, work, device, stream);
  // The older kernel knows one form at a time.
  for (const Product& each : products) launch_group({&each, 1}, panel, work, device, stream);
}

}  // namespace dllm::cuda

// Grouping matrices and splitting narrow products.
#include <algorithm>

#include "dllm/error.hpp"
#include "gemm.hpp"
#include "gemm_args.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kLeastUnits = 4;  // of a part: below, filling the pipeline dominates

std::uint32_t ceil_div(std::uint32_t n, std::uint32_t by) { return (n + by - 1) / by; }

// Into how many parts the inputs are split, so that a narrow matrix fills the device. Splits never
// make more tiles than there are multiprocessors: gemm_work_floats() counts on it.
std::uint32_t splits_of(const GemmArgs& args, const GemmDevice& device) {
  const std::uint32_t tile = device.has_warpgroups ? kGemmRowsSm90 : kGemmRowsSm80;
  const std::uint32_t row_tiles = ceil_div(args.n_blocks * kBlockRows, tile);
  const std::uint32_t wanted = device.n_multiprocessors / std::max(row_tiles, 1u);
  return std::clamp(std::min(wanted, args.n_units() / kLeastUnits), 1u, kMostSplits);
}

void launch_group(std::span<const Product> products, const Panel& panel, const GemmWork& work,
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
  if (args.n_splits > 1) args.work = work.floats;
  args.counters = work.counters;
  if (device.has_warpgroups) {
    launch_gemm_sm90(args, device, stream);
  } else {
    launch_gemm_sm80(args, stream);
  }
}

}  // namespace

std::uint64_t gemm_work_floats(const GemmDevice& device, std::uint64_t n_rows) {
  return device.n_multiprocessors * std::max(kGemmRowsSm80, kGemmRowsSm90) *
         (n_rows + kMostTokens + 7);
}

std::uint64_t gemm_counters(const GemmDevice& device, std::uint64_t n_rows) {
  return device.n_multiprocessors * (n_rows / kLeastTokens + 2) * kCountersPerTile;
}

void launch_gemm(std::span<const Product> products, const Panel& panel, const GemmWork& work,
                 const GemmDevice& device, cudaStream_t stream) {
  DLLM_ASSERT(!products.empty() && products.size() <= kMostProducts);
  if (device.has_warpgroups) return launch_group(products, panel, work, device, stream);
  // The older kernel knows one form at a time.
  for (const Product& each : products) launch_group({&each, 1}, panel, work, device, stream);
}

}  // namespace dllm::cuda

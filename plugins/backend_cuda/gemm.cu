// Grouping matrices and splitting narrow products.
#include <algorithm>

#include "dllm/error.hpp"
#include "gemm.hpp"
#include "gemm_args.hpp"
#include "gemm_int8.hpp"
#include "sums.hpp"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kLeastUnits = 4;  // of a part: below, filling the pipeline dominates

std::uint32_t ceil_div(std::uint32_t n, std::uint32_t by) { return (n + by - 1) / by; }

// How a narrow matrix is spread over the device: parts of the inputs, and, on compute capability
// 9.0, 64-row consumers a tile. It depends on the matrices and the device alone, never on the
// number of input rows. Parts never make more tiles than there are multiprocessors:
// gemm_work_floats() counts on it.
struct Split {
  std::uint32_t n = 1;
  std::uint32_t units = 1;  // of a part
  std::uint32_t n_consumers = 0;
  std::uint32_t cost = 0;
};

// `units`: along the inputs.
Split split_of(std::uint32_t n_blocks, std::uint32_t units, std::uint32_t n_multiprocessors,
               std::uint32_t tile_blocks) {
  const std::uint32_t row_tiles = ceil_div(n_blocks, tile_blocks);
  const std::uint32_t wanted = n_multiprocessors / std::max(row_tiles, 1u);
  Split split;
  split.n = std::clamp(std::min(wanted, units / kLeastUnits), 1u, kMostSplits);
  split.units = ceil_div(units, split.n);
  split.n = ceil_div(units, split.units);
  split.n_consumers = tile_blocks;
  split.cost = ceil_div(row_tiles * split.n, n_multiprocessors) * tile_blocks *
               (split.units + (split.n > 1 ? kPartUnits : 0));
  return split;
}

Split split_of(const GemmArgs& args, std::uint32_t n_multiprocessors, std::uint32_t tile_blocks) {
  return split_of(args.n_blocks, args.n_units(), n_multiprocessors, tile_blocks);
}

Split split_of(const GemmArgs& args, const GemmDevice& device) {
  if (!device.has_warpgroups)
    return split_of(args, device.n_multiprocessors, kGemmRowsSm80 / kBlockRows);
  const Split three = split_of(args, device.n_multiprocessors, 3);
  const Split two = split_of(args, device.n_multiprocessors, 2);
  return two.cost < three.cost ? two : three;
}

GemmArgs args_of(std::span<const Product> products, const Panel& panel) {
  GemmArgs args = {};
  args.panel = panel;
  args.store = products[0].out.store;
  for (const Product& each : products) {
    DLLM_ASSERT(each.weight.n_cols == panel.n_cols && each.out.store == args.store);
    args.parts[args.n_parts++] = {each.weight, each.out.to, each.out.stride, each.out.bias,
                                  args.n_blocks * kBlockRows};
    args.n_blocks += each.weight.n_blocks();
  }
  return args;
}

// The first of a tile's rows may be up to 7 before the call's first.
constexpr std::uint32_t kSpareRows = kMostTokens + 7;

void take_split(GemmArgs& args, const Split& split, float* work) {
  args.n_splits = split.n;
  args.units_per_split = split.units;
  args.n_consumers = split.n_consumers;
  args.work = work;
  args.block_rows = args.panel.n_rows + kSpareRows;
}

Sums sums_of(const GemmArgs& args, const GemmPart& part) {
  Sums sums;
  sums.n = args.n_splits;
  sums.block_rows = args.block_rows;
  sums.part_floats = std::uint64_t{args.n_blocks} * kBlockRows * args.block_rows;
  sums.parts = args.work + sums.place(args.panel.first_row % 8, part.first_col);
  sums.adds = args.store == Store::add;
  sums.scale = part.weight.out_scale;
  if (args.panel.row_scale) sums.row_scale = args.panel.row_scale + args.panel.first_row;
  sums.bias = part.bias;
  return sums;
}

GemmResults results_of(const GemmArgs& args, bool has_parts) {
  GemmResults results;
  for (std::uint32_t i = 0; i < args.n_parts; ++i) {
    const GemmPart& part = args.parts[i];
    DLLM_ASSERT(part.stride == part.weight.n_rows);
    results[i].rows = {part.to, args.panel.n_rows, part.weight.n_rows};
    if (has_parts) results[i].sums = sums_of(args, part);
  }
  return results;
}

// The older kernel knows one form at a time, so parts of one product are added before the next.
void launch_each_sm80(std::span<const Product> products, const Panel& panel, float* work,
                      const GemmDevice& device, cudaStream_t stream) {
  for (const Product& each : products) {
    GemmArgs args = args_of({&each, 1}, panel);
    take_split(args, split_of(args, device), work);
    launch_gemm_sm80(args, stream);
    if (args.n_splits > 1) launch_add_sums({results_of(args, true).data(), 1}, stream);
  }
}

GemmArgs gated_args(const Packed& gate, const Packed& up) {
  GemmArgs args = {};
  args.parts[0].weight = gate;
  args.parts[1].weight = up;
  args.parts[1].first_col = gate.n_blocks() * kBlockRows;
  args.n_parts = 2;
  args.n_blocks = gate.n_blocks() + up.n_blocks();
  return args;
}

// Where its rows lie; products of int8 read no values of it.
Panel rows_of(const Int8Panel& x) {
  return {nullptr, nullptr, x.n_rows, x.n_cols, x.padded_rows, x.first_row};
}

// `products`: a panel of either kind.
template <typename To>
GemmArgs gated_int8_args(const Packed& gate, const Packed& up, const Int8Panel& x,
                         const To& products) {
  DLLM_ASSERT(gates_inside_int8(gate, up) && x.step_cols == kGatedStepCols);
  DLLM_ASSERT(gate.n_rows == up.n_rows && x.n_cols == gate.n_cols && x.first_row == 0);
  DLLM_ASSERT(products.n_cols == gate.n_rows && products.n_rows == x.n_rows);
  GemmArgs args = gated_args(gate, up);
  args.n_blocks = gate.n_blocks();
  args.panel = rows_of(x);
  args.n_splits = 1;
  return args;
}

}  // namespace

bool gates_inside(const Packed& gate, const Packed& up, const GemmDevice& device) {
  if (!device.has_warpgroups || gate.form != up.form) return false;
  const Split split = split_of(gated_args(gate, up), device);
  return split.n == 1 && split.n_consumers == 3;
}

void launch_gated(const Packed& gate, const Packed& up, const Panel& x, const Panel& products,
                  const GemmDevice& device, cudaStream_t stream) {
  DLLM_ASSERT(gates_inside(gate, up, device) && x.n_cols == gate.n_cols && x.first_row == 0);
  DLLM_ASSERT(products.n_cols == gate.n_rows && products.n_rows == x.n_rows);
  GemmArgs args = gated_args(gate, up);
  args.panel = x;
  args.products = products;
  args.n_splits = 1;
  launch_gated_sm90(args, device, stream);
}

std::uint64_t gemm_work_floats(const GemmDevice& device, std::uint64_t n_rows) {
  return device.n_multiprocessors * std::max(kGemmRowsSm80, kGemmRowsSm90) * (n_rows + kSpareRows);
}

GemmResults launch_gemm(std::span<const Product> products, const Panel& panel, float* work,
                        const GemmDevice& device, cudaStream_t stream) {
  DLLM_ASSERT(!products.empty() && products.size() <= kMostProducts);
  if (!device.has_warpgroups) {
    launch_each_sm80(products, panel, work, device, stream);
    return {};
  }
  GemmArgs args = args_of(products, panel);
  take_split(args, split_of(args, device), work);
  return results_of(args, launch_gemm_sm90(args, device, stream));
}

GemmResults launch_gemm_int8(std::span<const Product> products, const Int8Panel& panel, float* work,
                             const GemmDevice& device, cudaStream_t stream) {
  DLLM_ASSERT(!products.empty() && products.size() <= kMostProducts);
  GemmArgs args = args_of(products, rows_of(panel));
  take_split(args, split_of(args.n_blocks, int8_blocks(panel.n_cols), device.n_multiprocessors, 2),
             work);
  return results_of(args, launch_int8_sm90(args, panel, device, stream));
}

bool gates_inside_int8(const Packed& gate, const Packed& up) {
  return gate.way() == Way::int8 && up.way() == Way::int8 &&
         gate.int8.step_cols == kGatedStepCols && up.int8.step_cols == kGatedStepCols;
}

void launch_gated_int8(const Packed& gate, const Packed& up, const Int8Panel& x,
                       const Int8Panel& products, const Rows& between, const GemmDevice& device,
                       cudaStream_t stream) {
  launch_int8_gated_sm90(gated_int8_args(gate, up, x, products), x, products, between, device,
                         stream);
}

void launch_gated_int8(const Packed& gate, const Packed& up, const Int8Panel& x,
                       const Panel& products, const GemmDevice& device, cudaStream_t stream) {
  launch_int8_gated_sm90(gated_int8_args(gate, up, x, products), x, products, device, stream);
}

}  // namespace dllm::cuda

// The product of int8 weights and activations for Hopper (sm_90a): integer warpgroup products, both
// operands in shared memory.
//
// A thread block takes 128 or 256 weight rows and up to kTokens input rows. Its first warpgroup is
// the producer: one warp has the copy engine bring, per 128 inputs, the weights, the block of the
// panel and their steps into a ring of stages. The other two are consumers of one or two blocks of
// 64 weight rows each: while one brings the integer sums of a stage into its f32 sums, the products
// of the other run. A block stays and takes tiles until none is left.
//
// In a gated call a consumer's two blocks are gate's and up's rows of the same 64 columns, so a
// thread has both factors of its products; the 128 columns of a tile are what shares a step of the
// next product's input, where that is int8, too. Where it is binary16, rows have their scales
// already.
#include <algorithm>

#include "gemm_int8_consumer.cuh"
#include "gemm_int8_ring.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "panels.hpp"

namespace dllm::cuda {
namespace {

// `to`: of gated calls.
template <int kTokens, int kPer, Kind kKind, typename To>
__global__ void __launch_bounds__(128 * (1 + kInt8Consumers), 1)
    gemm_int8(const __grid_constant__ GemmArgs a, const __grid_constant__ Int8Panel panel,
              const __grid_constant__ To to, const __grid_constant__ Plan plan) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ std::uint8_t memory[];
  Int8Ring<kTokens, kInt8Consumers * kPer> ring;
  begin_int8_ring(ring, memory, 4 * kInt8Consumers);
  let_successor_start();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    if (threadIdx.x < 32) produce_int8<kTokens, kPer, kKind>(a, panel, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
    consume_int8<kTokens, kPer, kKind>(a, to, plan, ring);
  }
#endif
}

// Blocks of a call's results that a tile takes.
template <int kPer, Kind kKind>
constexpr std::uint32_t kTileBlocks = kInt8Consumers * (kKind == Kind::gated ? 1 : kPer);

template <int kPer, Kind kKind>
std::uint32_t row_groups(const GemmArgs& args) {
  return (args.n_blocks + kTileBlocks<kPer, kKind> - 1) / kTileBlocks<kPer, kKind>;
}

template <int kTokens, int kPer, Kind kKind, typename To>
void launch_tiles(const GemmArgs& args, const Int8Panel& panel, const To& to,
                  const GemmDevice& device, cudaStream_t stream) {
  using Size = Int8Sizes<kTokens, kInt8Consumers * kPer>;
  const auto kernel = gemm_int8<kTokens, kPer, kKind, To>;
  Plan plan = {};
  plan.n_row_groups = row_groups<kPer, kKind>(args);
  plan.group_blocks = kTileBlocks<kPer, kKind>;  // the last may have fewer; its readers ask
  plan.n_parts = kKind != Kind::parts ? 1 : args.n_splits;
  plan.n_token_tiles = token_tiles<kTokens>(args.panel);
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)),
             "asking for shared memory");
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  launch("launching an int8 product", kernel, dim3(std::min(n_tiles, device.n_multiprocessors)),
         dim3(128 * (1 + kInt8Consumers)), Size::bytes(Size::kStages), stream, args, panel, to,
         plan);
}

// One of the kernels above, and what a call would cost with it, in waves of tiles: a tile costs its
// rows, and about 16 more, of two blocks a consumer 1.85 times as much (measured: fewer bytes for
// an operation); parts that are stored cost a few blocks.
template <typename To>
struct Choice {
  void (*launch)(const GemmArgs&, const Int8Panel&, const To&, const GemmDevice&, cudaStream_t);
  std::uint64_t cost;
  bool has_parts;
};

template <int kTokens, int kPer, Kind kKind, typename To = Int8Panel>
Choice<To> choice(const GemmArgs& args, const GemmDevice& device) {
  const std::uint64_t parts = kKind != Kind::parts ? 1 : args.n_splits;
  const std::uint64_t tiles =
      std::uint64_t{row_groups<kPer, kKind>(args)} * token_tiles<kTokens>(args.panel) * parts;
  const std::uint64_t waves = (tiles + device.n_multiprocessors - 1) / device.n_multiprocessors;
  const std::uint32_t blocks = int8_blocks(args.panel.n_cols);
  const std::uint32_t units = parts > 1 ? args.units_per_split + kPartUnits : blocks;
  return {launch_tiles<kTokens, kPer, kKind, To>,
          waves * (kTokens + 16) * (kPer == 2 ? 37 : 20) * units, parts > 1};
}

template <typename To>
struct Best {
  Choice<To> choice = {nullptr, ~std::uint64_t{0}, false};
  void consider(const Choice<To>& other) {
    if (other.cost < choice.cost) choice = other;
  }
};

template <typename To>
Choice<To> gated_choice(const GemmArgs& args, const GemmDevice& device) {
  Best<To> best;
  best.consider(choice<160, 2, Kind::gated, To>(args, device));
  best.consider(choice<128, 2, Kind::gated, To>(args, device));
  best.consider(choice<64, 2, Kind::gated, To>(args, device));
  best.consider(choice<32, 2, Kind::gated, To>(args, device));
  return best.choice;
}

}  // namespace

bool launch_int8_sm90(const GemmArgs& args, const Int8Panel& panel, const GemmDevice& device,
                      cudaStream_t stream) {
  Best<Int8Panel> best;
  best.consider(choice<176, 1, Kind::parts>(args, device));
  best.consider(choice<160, 1, Kind::parts>(args, device));
  best.consider(choice<96, 1, Kind::parts>(args, device));
  best.consider(choice<64, 1, Kind::parts>(args, device));
  best.consider(choice<32, 1, Kind::parts>(args, device));
  if (args.n_splits > 1) {
    best.consider(choice<160, 1, Kind::in_turn>(args, device));
    best.consider(choice<128, 1, Kind::in_turn>(args, device));
  } else {
    best.consider(choice<160, 2, Kind::whole>(args, device));
    best.consider(choice<128, 2, Kind::whole>(args, device));
  }
  best.choice.launch(args, panel, {}, device, stream);
  return best.choice.has_parts;
}

// Where narrow tiles are quicker although a kernel more makes int8 of what they store: about three
// blocks' time of a tile of 160 rows.
void launch_int8_gated_sm90(const GemmArgs& args, const Int8Panel& panel, const Int8Panel& products,
                            const Rows& between, const GemmDevice& device, cudaStream_t stream) {
  constexpr std::uint64_t kOneKernel = 3 * 37 * (160 + 16);
  const auto wide = gated_choice<Int8Panel>(args, device);
  if (wide.cost <= int8_gated_narrow_cost(args, device) + kOneKernel) {
    wide.launch(args, panel, products, device, stream);
    return;
  }
  launch_int8_gated_narrow(args, panel, between, device, stream);
  launch_prepare({between, {}}, nullptr, 0, {.f16 = {}, .int8 = products}, stream);
}

void launch_int8_gated_sm90(const GemmArgs& args, const Int8Panel& panel, const Panel& products,
                            const GemmDevice& device, cudaStream_t stream) {
  const auto wide = gated_choice<Panel>(args, device);
  if (wide.cost <= int8_gated_narrow_cost(args, device)) {
    wide.launch(args, panel, products, device, stream);
    return;
  }
  GemmArgs narrow = args;
  narrow.products = products;
  launch_int8_gated_narrow(narrow, panel, {}, device, stream);
}

const void* gemm_int8_kernel() {
  return reinterpret_cast<const void*>(gemm_int8<32, 1, Kind::parts, Int8Panel>);
}

}  // namespace dllm::cuda

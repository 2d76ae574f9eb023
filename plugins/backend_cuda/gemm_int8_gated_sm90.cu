// Launches of the kernel of gemm_int8_gated.cuh.
#include <algorithm>

#include "gemm_int8.hpp"
#include "gemm_int8_gated.cuh"
#include "kernel_loading.hpp"
#include "row_groups.hpp"

namespace dllm::cuda {
namespace {

// `to`: of products that are stored as they are.
template <int kTokens>
__global__ void __launch_bounds__(128 * (1 + kGatedConsumers), 1)
    gemm_int8_gated(const __grid_constant__ GemmArgs a, const __grid_constant__ Int8Panel panel,
                    const __grid_constant__ Rows to, const __grid_constant__ Plan plan) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ std::uint8_t memory[];
  GatedRing<kTokens> ring;
  begin_int8_ring(ring, memory, 4 * kGatedConsumers);
  let_successor_start();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    if (threadIdx.x < 32) produce_gated<kTokens>(a, panel, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 152;\n");
    consume_gated<kTokens>(a, to, plan, ring);
  }
#endif
}

// Halves of a block of gate and of up make a block of a tile.
std::uint32_t n_blocks(const GemmArgs& args) { return 2 * args.n_blocks; }

template <int kTokens>
RowGroups row_groups(const GemmArgs& args, const GemmDevice& device) {
  return {n_blocks(args), kGatedConsumers, token_tiles<kTokens>(args.panel),
          device.n_multiprocessors};
}

template <int kTokens>
void launch_tiles(const GemmArgs& args, const Int8Panel& panel, const Rows& to,
                  const GemmDevice& device, cudaStream_t stream) {
  using Size = Int8Sizes<kTokens, kGatedConsumers>;
  const auto kernel = gemm_int8_gated<kTokens>;
  const RowGroups groups = row_groups<kTokens>(args, device);
  Plan plan = {};
  plan.n_row_groups = groups.n;
  plan.group_blocks = groups.blocks;
  plan.n_larger = groups.n_larger;
  plan.n_parts = 1;
  plan.n_token_tiles = token_tiles<kTokens>(args.panel);
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)),
             "asking for shared memory");
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_token_tiles;
  launch("launching a gated int8 product", kernel,
         dim3(std::min(n_tiles, device.n_multiprocessors)), dim3(128 * (1 + kGatedConsumers)),
         Size::bytes(Size::kStages), stream, args, panel, to, plan);
}

struct Choice {
  void (*launch)(const GemmArgs&, const Int8Panel&, const Rows&, const GemmDevice&, cudaStream_t);
  std::uint64_t cost;
};

// In the unit of gemm_int8_sm90.cu, where four blocks and 160 rows cost 37 * (160 + 16) for 128
// inputs, 2,750 cycles: three cost 2,100 here.
template <int kTokens>
Choice choice(const GemmArgs& args, const GemmDevice& device) {
  const std::uint64_t turns =
      row_groups<kTokens>(args, device)
          .turns(kGatedConsumers, token_tiles<kTokens>(args.panel), device.n_multiprocessors);
  return {launch_tiles<kTokens>, turns * 19 / 2 * (kTokens + 16) * int8_blocks(args.panel.n_cols)};
}

Choice best_choice(const GemmArgs& args, const GemmDevice& device) {
  Choice best = choice<176>(args, device);
  for (const Choice& other : {choice<160>(args, device), choice<128>(args, device),
                              choice<64>(args, device), choice<32>(args, device)})
    if (other.cost < best.cost) best = other;
  return best;
}

}  // namespace

std::uint64_t int8_gated_narrow_cost(const GemmArgs& args, const GemmDevice& device) {
  return best_choice(args, device).cost;
}

void launch_int8_gated_narrow(const GemmArgs& args, const Int8Panel& panel, const Rows& to,
                              const GemmDevice& device, cudaStream_t stream) {
  best_choice(args, device).launch(args, panel, to, device, stream);
}

const void* gemm_int8_gated_kernel() { return reinterpret_cast<const void*>(gemm_int8_gated<32>); }

}  // namespace dllm::cuda

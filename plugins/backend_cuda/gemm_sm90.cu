// The product for Hopper (sm_90a): warpgroup products with the weights in registers.
//
// A thread block takes up to 192 or 128 weight rows and up to kTokens input rows. Its first
// warpgroup is the producer: one warp has the copy engine bring, per 64 inputs, the quantised
// weights and the block of the panel into a ring of stages. The other three or two are consumers:
// each reads the quantised codes of its own 64 rows, unpacks them in registers and multiplies them
// with the stage's inputs; while one unpacks, the products of the others run. Two consumers have
// registers to unpack the next codes while their own products run, too. A block stays and takes
// tiles until none is left.
#include <algorithm>

#include "async_copy.cuh"
#include "gemm_consumer.cuh"
#include "gemm_producer.cuh"
#include "gemm_ring.cuh"
#include "kernel_loading.hpp"
#include "launch.cuh"
#include "row_groups.hpp"

namespace dllm::cuda {
namespace {

template <int kTokens, int kConsumers, Kind kKind>
__global__ void __launch_bounds__(128 * (1 + kConsumers), 1)
    gemm(const __grid_constant__ GemmArgs a, const __grid_constant__ Plan plan) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ std::uint8_t memory[];
  Ring<kTokens, kConsumers> ring;
  ring.base = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  ring.n_stages = plan.n_stages;
  ring.block_bytes = plan.block_bytes;
  begin_ring(ring, 4 * kConsumers);
  __syncthreads();
  let_successor_start();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    if (threadIdx.x < 32) produce<kTokens, kConsumers, kKind>(a, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kConsumers == 2 ? 232 : 152));
    consume<kTokens, kConsumers, kKind>(a, plan, ring);
  }
#endif
}

template <int kTokens, Kind kKind>
std::uint32_t n_others(const GemmArgs& args) {
  return token_tiles<kTokens>(args.panel) * (kKind == Kind::parts ? args.n_splits : 1);
}

template <int kTokens, int kConsumers, Kind kKind>
RowGroups row_groups(const GemmArgs& args, const GemmDevice& device) {
  return {args.n_blocks, kConsumers, n_others<kTokens, kKind>(args), device.n_multiprocessors};
}

template <int kTokens, int kConsumers, Kind kKind>
void launch_tiles(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
  const auto kernel = gemm<kTokens, kConsumers, kKind>;
  Plan plan = {};
  const RowGroups groups = row_groups<kTokens, kConsumers, kKind>(args, device);
  plan.n_row_groups = groups.n;
  plan.group_blocks = groups.blocks;
  plan.n_larger = groups.n_larger;
  plan.n_parts = kKind != Kind::parts ? 1 : args.n_splits;
  plan.n_token_tiles = token_tiles<kTokens>(args.panel);
  for (std::uint32_t i = 0; i < args.n_parts; ++i)
    plan.block_bytes = std::max(plan.block_bytes,
                                kBlockUnits * form_facts(args.parts[i].weight.form).unit_bytes());
  const std::uint32_t stage_bytes = kTokens * 128 + kConsumers * plan.block_bytes;
  plan.n_stages = std::min((kSharedBytes - kAlignment - kHeaderBytes) / stage_bytes, kMostStages);
  const std::uint32_t bytes = kAlignment + kHeaderBytes + plan.n_stages * stage_bytes;
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)),
             "asking for shared memory");
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  launch("launching a product", kernel, dim3(std::min(n_tiles, device.n_multiprocessors)),
         dim3(128 * (1 + kConsumers)), bytes, stream, args, plan);
}

// One of the kernels above, and what a call would cost with it.
struct Choice {
  void (*launch)(const GemmArgs&, const GemmDevice&, cudaStream_t);
  std::uint64_t cost;
  bool has_parts;
};

// What a block of weights and kTokens input rows cost, in rows: about 16 more than there are, and
// with three consumers hardly less for 80 than for 160, because unpacking is what they wait for
// (833 and 981 cycles for 64 inputs).
template <int kTokens, int kConsumers>
constexpr std::uint64_t kBlockCost =
    kConsumers == 3 ? std::max(kTokens + 16, 140 + kTokens / 8) : kTokens + 16;

// In blocks that a multiprocessor takes; parts that are stored cost kPartUnits.
template <int kTokens, int kConsumers, Kind kKind>
Choice choice(const GemmArgs& args, const GemmDevice& device) {
  const std::uint64_t parts = kKind != Kind::parts ? 1 : args.n_splits;
  const RowGroups groups = row_groups<kTokens, kConsumers, kKind>(args, device);
  const std::uint64_t blocks =
      groups.turns(kConsumers, n_others<kTokens, kKind>(args), device.n_multiprocessors);
  const std::uint32_t units = kKind == Kind::in_turn ? args.n_units() + args.n_splits
                              : args.n_splits > 1    ? args.units_per_split + kPartUnits
                                                     : args.n_units();
  return {launch_tiles<kTokens, kConsumers, kKind>,
          blocks * kBlockCost<kTokens, kConsumers> * units, parts > 1};
}

struct Best {
  Choice choice = {nullptr, ~std::uint64_t{0}, false};
  void consider(const Choice& other) {
    if (other.cost < choice.cost) choice = other;
  }
};

}  // namespace

bool launch_gemm_sm90(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
  Best best;
  const auto consider = [&](const Choice& choice) { best.consider(choice); };
  if (args.n_consumers == 2) {
    consider(choice<176, 2, Kind::parts>(args, device));
    consider(choice<160, 2, Kind::parts>(args, device));
    consider(choice<128, 2, Kind::parts>(args, device));
    consider(choice<96, 2, Kind::parts>(args, device));
    consider(choice<64, 2, Kind::parts>(args, device));
    consider(choice<32, 2, Kind::parts>(args, device));
  } else {
    consider(choice<176, 3, Kind::parts>(args, device));
    consider(choice<160, 3, Kind::parts>(args, device));
    consider(choice<128, 3, Kind::parts>(args, device));
    consider(choice<96, 3, Kind::parts>(args, device));
    consider(choice<80, 3, Kind::parts>(args, device));
    consider(choice<64, 3, Kind::parts>(args, device));
    consider(choice<32, 3, Kind::parts>(args, device));
  }
  if (args.n_splits == 1) {
    consider(choice<256, 2, Kind::whole>(args, device));
  } else {
    consider(choice<160, 2, Kind::in_turn>(args, device));
    consider(choice<128, 2, Kind::in_turn>(args, device));
  }
  best.choice.launch(args, device, stream);
  return best.choice.has_parts;
}

void launch_gated_sm90(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
  Best best;
  best.consider(choice<256, 2, Kind::gated>(args, device));
  best.consider(choice<176, 3, Kind::gated>(args, device));
  best.consider(choice<160, 3, Kind::gated>(args, device));
  best.consider(choice<128, 3, Kind::gated>(args, device));
  best.consider(choice<96, 3, Kind::gated>(args, device));
  best.consider(choice<80, 3, Kind::gated>(args, device));
  best.consider(choice<64, 3, Kind::gated>(args, device));
  best.consider(choice<32, 3, Kind::gated>(args, device));
  best.choice.launch(args, device, stream);
}

const void* gemm_sm90_kernel() { return reinterpret_cast<const void*>(gemm<32, 3, Kind::parts>); }

}  // namespace dllm::cuda

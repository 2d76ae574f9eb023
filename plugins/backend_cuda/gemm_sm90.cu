// The product for Hopper (sm_90a): warpgroup products with the weights in registers.
//
// A thread block takes 192 weight rows and up to kTokens input rows. Its first warpgroup is the
// producer: one warp has the copy engine bring, per 64 inputs, the quantised weights and the block
// of the panel into a ring of stages. The other three are consumers: each reads the quantised codes
// of its own 64 rows, unpacks them in registers and multiplies them with the stage's inputs; while
// one unpacks, the products of the others run. Blocks of a cluster work on neighbouring rows with
// the same inputs and bring each a share of them for all. A block stays and takes tiles until none
// is left.
#include <algorithm>

#include "async_copy.cuh"
#include "cuda_check.hpp"
#include "gemm_common.cuh"
#include "wgmma.cuh"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kConsumers = 3;
constexpr std::uint32_t kThreads = 128 * (1 + kConsumers);
static_assert(kConsumers * kBlockRows == kGemmRowsSm90);
constexpr std::uint32_t kMostStages = 12;
constexpr std::uint32_t kAlignment = 1024;  // of a stage: eight swizzled rows
constexpr std::uint32_t kSharedBytes = 227 * 1024;
constexpr std::uint32_t kBarrierBytes = 2 * kMostStages * 8;

/// How a launch is cut into tiles, and where things lie in shared memory.
struct Plan {
  std::uint32_t n_row_groups;  // tiles of 192 weight rows, a cluster's together
  std::uint32_t n_token_tiles;
  std::uint32_t n_stages;
  std::uint32_t block_bytes;  // room for the weights of a consumer in a stage
};

struct Tile {
  std::uint32_t token_tile;
  std::uint32_t split;
  std::uint32_t first_block;
};

#if defined(DLLM_WARPGROUPS)

// Token tiles of the same weights are neighbours: the second finds them in the cache.
__device__ __forceinline__ Tile tile_of(const GemmArgs& a, const Plan& plan, std::uint32_t number) {
  const std::uint32_t rest = number / plan.n_token_tiles;
  const std::uint32_t group = rest / a.n_splits;
  return {number % plan.n_token_tiles, rest % a.n_splits,
          (group * cluster_size() + cluster_rank()) * kConsumers};
}

// The ring: `full` completes when a stage's bytes are there, `empty` when every consuming warp of
// the cluster has let go of it.
template <int kTokens>
struct Ring {
  static constexpr std::uint32_t kPanelBytes = kTokens * 128;
  std::uint32_t base;
  std::uint32_t n_stages;
  std::uint32_t block_bytes;
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ std::uint32_t full(std::uint32_t s) const { return base + 8 * s; }
  __device__ std::uint32_t empty(std::uint32_t s) const { return base + 8 * (kMostStages + s); }
  __device__ std::uint32_t panel() const { return base + kAlignment + stage * kPanelBytes; }
  __device__ std::uint32_t weights(std::uint32_t consumer) const {
    return base + kAlignment + n_stages * kPanelBytes +
           (stage * kConsumers + consumer) * block_bytes;
  }
  __device__ void advance() {
    if (++stage == n_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Products of units [0, n) that come through the ring: acc = their sum.
template <Form kForm, int kTokens>
__device__ __forceinline__ void accumulate(Ring<kTokens>& ring, std::uint32_t n,
                                           std::uint32_t consumer, int warp, int lane,
                                           float (&acc)[kTokens / 2]) {
  const std::uint32_t n_ranks = cluster_size();
  for (std::uint32_t u = 0; u < n; ++u) {
    barrier_wait(ring.full(ring.stage), ring.parity);
    Unit<kForm> unit;
    unit.load_shared(ring.weights(consumer) + warp * form_facts(kForm).unit_bytes(), lane);
    std::uint32_t operand[4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) unit.operand(j, operand[j]);
    const std::uint32_t panel = ring.panel();
    products_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j)
      WarpgroupProduct<kTokens>::run(acc, operand[j], swizzled_operand(panel + 32 * j),
                                     j > 0 || u > 0);
    products_commit();
    products_wait();
    if (lane < static_cast<int>(n_ranks)) barrier_arrive(ring.empty(ring.stage), lane);
    ring.advance();
  }
}

template <int kTokens>
__device__ __forceinline__ void consume(const GemmArgs& a, const Plan& plan, Ring<kTokens> ring) {
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * a.n_splits * plan.n_token_tiles;
  wait_for_previous_kernels();
  for (std::uint32_t number = blockIdx.x / cluster_size(); number < n_tiles;
       number += gridDim.x / cluster_size()) {
    const Tile tile = tile_of(a, plan, number);
    const std::uint32_t block = tile.first_block + consumer;
    const bool exists = block < a.n_blocks;
    const std::uint32_t begin = tile.split * a.units_per_split;
    const std::uint32_t n = min(begin + a.units_per_split, a.n_units()) - begin;
    float acc[kTokens / 2];
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) acc[i] = 0;
    switch (a.part_of(exists ? block : 0).weight.form) {
      case Form::q4:
        accumulate<Form::q4, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::q4_min:
        accumulate<Form::q4_min, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::q4_half:
        accumulate<Form::q4_half, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::q4_half_min:
        accumulate<Form::q4_half_min, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::q5:
        accumulate<Form::q5, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::q5_min:
        accumulate<Form::q5_min, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::q6_half:
        accumulate<Form::q6_half, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::q8:
        accumulate<Form::q8, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
      case Form::f16:
        accumulate<Form::f16, kTokens>(ring, n, consumer, warp, lane, acc);
        break;
    }
    if (exists)
      store_results<kTokens>(a, acc, block, warp * kUnitRows, tile.split,
                             first_tile_row<kTokens>(a.panel, tile.token_tile), lane);
  }
}

// One warp: lanes 0 to 2 bring the weights of a consumer each, lane 3 this block's share of the
// panel. Weights do not depend on the kernels before this one, so the first stages' are asked for
// before waiting for them.
template <int kTokens>
__device__ __forceinline__ void produce(const GemmArgs& a, const Plan& plan, Ring<kTokens> ring) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_ranks = cluster_size();
  const std::uint32_t rank = cluster_rank();
  const std::uint32_t share = Ring<kTokens>::kPanelBytes / n_ranks;
  const std::uint32_t n_tiles = plan.n_row_groups * a.n_splits * plan.n_token_tiles;
  bool first = true;
  for (std::uint32_t number = blockIdx.x / n_ranks; number < n_tiles;
       number += gridDim.x / n_ranks) {
    const Tile tile = tile_of(a, plan, number);
    const std::uint32_t begin = tile.split * a.units_per_split;
    const std::uint32_t n = min(begin + a.units_per_split, a.n_units()) - begin;
    const std::uint8_t* weights = nullptr;
    std::uint32_t bytes = 0;
    if (lane < kConsumers) {
      const std::uint32_t block =
          tile.first_block + lane < a.n_blocks ? tile.first_block + lane : 0;
      const GemmPart& part = a.part_of(block);
      weights = part.weight.units +
                part.weight.unit_offset((block - part.first_col / kBlockRows) * kBlockUnits, begin);
      bytes = kBlockUnits * form_facts(part.weight.form).unit_bytes();
    }
    const std::uint32_t all_bytes =
        Ring<kTokens>::kPanelBytes + __shfl_sync(0xFFFFFFFFu, bytes, 0) +
        __shfl_sync(0xFFFFFFFFu, bytes, 1) + __shfl_sync(0xFFFFFFFFu, bytes, 2);
    const std::uint8_t* panel =
        reinterpret_cast<const std::uint8_t*>(
            a.panel.values + (static_cast<std::uint64_t>(begin) * a.panel.padded_rows +
                              first_tile_row<kTokens>(a.panel, tile.token_tile)) *
                                 kUnitCols) +
        rank * share;
    const std::uint64_t panel_step = std::uint64_t{a.panel.padded_rows} * 128;
    const auto bring_weights = [&](const Ring<kTokens>& at, std::uint32_t u) {
      if (lane == 0) barrier_expect(at.full(at.stage), all_bytes);
      __syncwarp();
      if (lane < kConsumers)
        copy_bulk(at.weights(lane), weights + std::uint64_t{u} * bytes, bytes, at.full(at.stage));
    };
    const auto bring_panel = [&](const Ring<kTokens>& at, std::uint32_t u) {
      if (lane != kConsumers) return;
      const std::uint32_t to = at.panel() + rank * share;
      if (n_ranks == 1) {
        copy_bulk(to, panel + u * panel_step, share, at.full(at.stage));
      } else {
        copy_bulk_shared(to, panel + u * panel_step, share, at.full(at.stage),
                         static_cast<std::uint16_t>((1u << n_ranks) - 1));
      }
    };
    std::uint32_t done = 0;
    if (first) {
      done = min(n, ring.n_stages);
      Ring<kTokens> ahead = ring;
      for (std::uint32_t u = 0; u < done; ++u, ahead.advance()) bring_weights(ahead, u);
      wait_for_previous_kernels();
      for (std::uint32_t u = 0; u < done; ++u, ring.advance()) bring_panel(ring, u);
      first = false;
    }
    for (std::uint32_t u = done; u < n; ++u, ring.advance()) {
      barrier_wait(ring.empty(ring.stage), ring.parity ^ 1);
      bring_weights(ring, u);
      bring_panel(ring, u);
    }
  }
}

#endif

template <int kTokens>
__global__ void __launch_bounds__(kThreads, 1)
    gemm(const __grid_constant__ GemmArgs a, const __grid_constant__ Plan plan) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ std::uint8_t memory[];
  Ring<kTokens> ring;
  ring.base = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  ring.n_stages = plan.n_stages;
  ring.block_bytes = plan.block_bytes;
  const std::uint32_t n_ranks = cluster_size();
  if (threadIdx.x == 0) {
    for (std::uint32_t s = 0; s < plan.n_stages; ++s) {
      barrier_init(ring.full(s), 1);
      barrier_init(ring.empty(s), 4 * kConsumers * n_ranks);
    }
    barrier_init_fence();
  }
  if (n_ranks > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  let_next_kernel_start();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    if (threadIdx.x < 32) produce<kTokens>(a, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 152;\n");
    consume<kTokens>(a, plan, ring);
  }
  // Nobody leaves while others of the cluster may still arrive at its barriers.
  if (n_ranks > 1) cluster_sync();
#endif
}

template <int kTokens>
void launch(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
  const std::uint32_t n_ranks = device.cluster;
  const std::uint32_t row_tiles = (args.n_blocks + kConsumers - 1) / kConsumers;
  Plan plan = {};
  plan.n_row_groups = (row_tiles + n_ranks - 1) / n_ranks;
  plan.n_token_tiles = token_tiles<kTokens>(args.panel);
  for (std::uint32_t i = 0; i < args.n_parts; ++i)
    plan.block_bytes = std::max(plan.block_bytes,
                                kBlockUnits * form_facts(args.parts[i].weight.form).unit_bytes());
  const std::uint32_t stage_bytes = kTokens * 128 + kConsumers * plan.block_bytes;
  plan.n_stages = std::min((kSharedBytes - 2 * kAlignment) / stage_bytes, kMostStages);
  static_assert(kBarrierBytes <= kAlignment);
  const std::uint32_t bytes = 2 * kAlignment + plan.n_stages * stage_bytes;
  cuda_check(cudaFuncSetAttribute(gemm<kTokens>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)),
             "asking for shared memory");
  const std::uint32_t n_tiles = plan.n_row_groups * args.n_splits * plan.n_token_tiles;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {n_ranks, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(std::min(n_tiles, device.n_multiprocessors / n_ranks) * n_ranks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cuda_check(cudaLaunchKernelEx(&config, gemm<kTokens>, args, plan), "launching a product");
}

}  // namespace

// The tile of input rows that leaves the fewest places empty.
void launch_gemm_sm90(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
  const std::uint32_t rows = args.panel.first_row % 8 + args.panel.n_rows;
  std::uint32_t best = 32;
  std::uint32_t least = 0xFFFFFFFFu;
  for (const std::uint32_t tile : {160u, 128u, 96u, 64u, 32u}) {
    // A tile costs its rows, and about 16 more for unpacking what is then used for few.
    const std::uint32_t cost = (rows + tile - 1) / tile * (tile + 16);
    if (cost < least) {
      least = cost;
      best = tile;
    }
  }
  switch (best) {
    case 32:
      return launch<32>(args, device, stream);
    case 64:
      return launch<64>(args, device, stream);
    case 96:
      return launch<96>(args, device, stream);
    case 128:
      return launch<128>(args, device, stream);
    default:
      return launch<160>(args, device, stream);
  }
}

}  // namespace dllm::cuda

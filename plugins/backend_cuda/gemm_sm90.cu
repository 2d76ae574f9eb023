// The product for Hopper (sm_90a): warpgroup products with the weights in registers.
//
// A thread block takes 192 weight rows and up to kTokens input rows. Its first warpgroup is the
// producer: one warp has the copy engine bring, per 64 inputs, the quantised weights and the block
// of the panel into a ring of stages. The other three are consumers: each reads the quantised codes
// of its own 64 rows, unpacks them in registers and multiplies them with the stage's inputs; while
// one unpacks, the products of the others run. A block stays and takes tiles until none
// is left.
#include <algorithm>

#include "async_copy.cuh"
#include "gemm_common.cuh"
#include "gemm_tiles.cuh"
#include "launch.cuh"
#include "wgmma.cuh"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kThreads = 128 * (1 + kConsumers);
static_assert(kConsumers * kBlockRows == kGemmRowsSm90);
constexpr std::uint32_t kMostStages = 12;
constexpr std::uint32_t kAlignment = 1024;  // of a stage: eight swizzled rows
constexpr std::uint32_t kSharedBytes = 227 * 1024;
constexpr std::uint32_t kBarrierBytes = 2 * kMostStages * 8;
constexpr std::uint32_t kHeaderBytes = 3 * kAlignment;  // barriers and scales, before the stages
static_assert(kBarrierBytes + kConsumers * kMostTokens * 4 <= kHeaderBytes);

#if defined(DLLM_WARPGROUPS)

// The ring: `full` completes when a stage's bytes are there, `empty` when every consuming warp
// has let go of it.
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
  __device__ std::uint32_t panel() const { return base + kHeaderBytes + stage * kPanelBytes; }
  __device__ std::uint32_t weights(std::uint32_t consumer) const {
    return base + kHeaderBytes + n_stages * kPanelBytes +
           (stage * kConsumers + consumer) * block_bytes;
  }
  /// Scales of the tile's input rows, for each consumer.
  __device__ std::uint32_t scales(std::uint32_t consumer) const {
    return base + kBarrierBytes + consumer * 4 * kTokens;
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
    if (lane == 0) barrier_arrive(ring.empty(ring.stage));
    ring.advance();
  }
}

template <int kTokens>
__device__ __forceinline__ void consume(const GemmArgs& a, const Plan& plan, Ring<kTokens> ring) {
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * a.n_splits * plan.n_token_tiles;
  wait_for_predecessor();
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(a, plan, number);
    const std::uint32_t block = tile.first_block + consumer;
    const bool exists = block < a.n_blocks;
    const std::uint32_t begin = tile.split * a.units_per_split;
    const std::uint32_t n = min(begin + a.units_per_split, a.n_units()) - begin;
    const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    keep_scales<kTokens>(a, tile_row, consumer, ring.scales(consumer));
    float acc[kTokens / 2];
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) acc[i] = 0;
    const GemmPart& part = a.part_of(exists ? block : 0);
    switch (part.weight.form) {
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
    if (!exists) continue;
    const ResultRows rows(a, part, block * kBlockRows - part.first_col + warp * kUnitRows, tile_row,
                          lane);
    if (a.n_splits > 1) {
      meet<kTokens>(a, plan, tile, consumer, acc, rows, ring.scales(consumer));
      continue;
    }
#pragma unroll
    for (int n = 0; n < kTokens / 8; ++n)
      rows.store(n, four(acc, n), scales_of(ring.scales(consumer), n), rows.there(n));
  }
}

// One warp: lanes 0 to 2 bring the weights of a consumer each, lane 3 the panel's block. Weights do
// not depend on the kernels before this one, so the first stages' are asked for before waiting for
// them.
template <int kTokens>
__device__ __forceinline__ void produce(const GemmArgs& a, const Plan& plan, Ring<kTokens> ring) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * a.n_splits * plan.n_token_tiles;
  bool first = true;
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(a, plan, number);
    const std::uint32_t begin = tile.split * a.units_per_split;
    const std::uint32_t n = min(begin + a.units_per_split, a.n_units()) - begin;
    const std::uint8_t* weights = nullptr;
    std::uint32_t bytes = 0;
    if (lane < kConsumers) {
      const std::uint32_t block = tile.first_block + lane;
      const std::uint32_t existing = block < a.n_blocks ? block : 0;
      const GemmPart& part = a.part_of(existing);
      bytes = kBlockUnits * form_facts(part.weight.form).unit_bytes();
      weights =
          part.weight.units +
          part.weight.unit_offset((existing - part.first_col / kBlockRows) * kBlockUnits, begin);
    }
    std::uint32_t all_bytes = bytes;
    for (int offset = 16; offset > 0; offset /= 2)
      all_bytes += __shfl_xor_sync(0xFFFFFFFFu, all_bytes, offset);
    all_bytes += Ring<kTokens>::kPanelBytes;
    const std::uint8_t* panel = reinterpret_cast<const std::uint8_t*>(
        a.panel.values + (static_cast<std::uint64_t>(begin) * a.panel.padded_rows +
                          first_tile_row<kTokens>(a.panel, tile.token_tile)) *
                             kUnitCols);
    const std::uint64_t panel_step = std::uint64_t{a.panel.padded_rows} * 128;
    const auto bring_weights = [&](const Ring<kTokens>& at, std::uint32_t u) {
      if (lane == 0) barrier_expect(at.full(at.stage), all_bytes);
      __syncwarp();
      if (lane < kConsumers)
        copy_bulk(at.weights(lane), weights + std::uint64_t{u} * bytes, bytes, at.full(at.stage));
    };
    const auto bring_panel = [&](const Ring<kTokens>& at, std::uint32_t u) {
      if (lane == kConsumers)
        copy_bulk(at.panel(), panel + u * panel_step, Ring<kTokens>::kPanelBytes,
                  at.full(at.stage));
    };
    std::uint32_t done = 0;
    if (first) {
      done = min(n, ring.n_stages);
      Ring<kTokens> ahead = ring;
      for (std::uint32_t u = 0; u < done; ++u, ahead.advance()) bring_weights(ahead, u);
      wait_for_predecessor();
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
  if (threadIdx.x == 0) {
    for (std::uint32_t s = 0; s < plan.n_stages; ++s) {
      barrier_init(ring.full(s), 1);
      barrier_init(ring.empty(s), 4 * kConsumers);
    }
    barrier_init_fence();
  }
  __syncthreads();
  let_successor_start();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    if (threadIdx.x < 32) produce<kTokens>(a, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 152;\n");
    consume<kTokens>(a, plan, ring);
  }
#endif
}

template <int kTokens>
void launch_tiles(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
  const std::uint32_t row_tiles = (args.n_blocks + kConsumers - 1) / kConsumers;
  Plan plan = {};
  plan.n_row_groups = row_tiles;
  plan.n_token_tiles = token_tiles<kTokens>(args.panel);
  for (std::uint32_t i = 0; i < args.n_parts; ++i)
    plan.block_bytes = std::max(plan.block_bytes,
                                kBlockUnits * form_facts(args.parts[i].weight.form).unit_bytes());
  const std::uint32_t stage_bytes = kTokens * 128 + kConsumers * plan.block_bytes;
  plan.n_stages = std::min((kSharedBytes - kAlignment - kHeaderBytes) / stage_bytes, kMostStages);
  const std::uint32_t bytes = kAlignment + kHeaderBytes + plan.n_stages * stage_bytes;
  cuda_check(cudaFuncSetAttribute(gemm<kTokens>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)),
             "asking for shared memory");
  const std::uint32_t n_tiles = plan.n_row_groups * args.n_splits * plan.n_token_tiles;
  launch("launching a product", gemm<kTokens>, dim3(std::min(n_tiles, device.n_multiprocessors)),
         dim3(kThreads), bytes, stream, args, plan);
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
      return launch_tiles<32>(args, device, stream);
    case 64:
      return launch_tiles<64>(args, device, stream);
    case 96:
      return launch_tiles<96>(args, device, stream);
    case 128:
      return launch_tiles<128>(args, device, stream);
    default:
      return launch_tiles<160>(args, device, stream);
  }
}

}  // namespace dllm::cuda

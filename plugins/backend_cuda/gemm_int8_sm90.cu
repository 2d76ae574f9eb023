// The product of int8 weights and activations for Hopper (sm_90a): integer warpgroup products, both
// operands in shared memory.
//
// A thread block takes 128 weight rows and up to kTokens input rows. Its first warpgroup is the
// producer: one warp has the copy engine bring, per 128 inputs, the weights, the block of the panel
// and their steps into a ring of stages. The other two are consumers of 64 weight rows each: while
// one brings the integer sums of a stage into its f32 sums, the products of the other run. A block
// stays and takes tiles until none is left.
#include <algorithm>

#include "async_copy.cuh"
#include "gemm_common.cuh"
#include "gemm_int8.hpp"
#include "gemm_tiles.cuh"
#include "integer_wgmma.cuh"
#include "launch.cuh"

namespace dllm::cuda {
namespace {

constexpr int kConsumers = 2;
constexpr std::uint32_t kMostStages = 8;
constexpr std::uint32_t kAlignment = 1024;  // of a stage: eight swizzled rows
constexpr std::uint32_t kSharedBytes = 227 * 1024;
constexpr std::uint32_t kBarrierBytes = 2 * kMostStages * 8;
constexpr std::uint32_t kBlockBytes = kBlockRows * kInt8Cols;
constexpr std::uint32_t kBlockStepBytes = kBlockRows * 4;

enum class Kind {
  parts,   // tiles take a part of the inputs each, which meet in memory
  in_turn  // a tile takes all parts, one after the other
};

template <int kTokens>
struct Sizes {
  static constexpr std::uint32_t kPanelBytes = kTokens * kInt8Cols;
  static constexpr std::uint32_t kStageBytes = kPanelBytes + kConsumers * kBlockBytes;
  static constexpr std::uint32_t kStepBytes = kTokens * 4 + kConsumers * kBlockStepBytes;
  static constexpr std::uint32_t kBroughtBytes = kStageBytes + kStepBytes;
  /// Barriers, ones, steps of all stages; then the stages.
  static constexpr std::uint32_t kHeaderBytes =
      (kBarrierBytes + kTokens * 4 + kMostStages * kStepBytes + kAlignment - 1) / kAlignment *
      kAlignment;
};

#if defined(DLLM_WARPGROUPS)

// The ring: `full` completes when a stage's bytes are there, `empty` when every consuming warp
// has let go of it.
template <int kTokens>
struct Ring {
  using Size = Sizes<kTokens>;
  std::uint32_t base;
  std::uint32_t n_stages;
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ std::uint32_t full(std::uint32_t s) const { return base + 8 * s; }
  __device__ std::uint32_t empty(std::uint32_t s) const { return base + 8 * (kMostStages + s); }
  /// kTokens floats of 1: scales of input rows, which int8 panels do not have.
  __device__ std::uint32_t ones() const { return base + kBarrierBytes; }
  /// Steps of the tile's input rows, then of each consumer's weight rows.
  __device__ std::uint32_t steps() const {
    return base + kBarrierBytes + kTokens * 4 + stage * Size::kStepBytes;
  }
  __device__ std::uint32_t weight_steps(std::uint32_t consumer) const {
    return steps() + kTokens * 4 + consumer * kBlockStepBytes;
  }
  __device__ std::uint32_t panel() const {
    return base + Size::kHeaderBytes + stage * Size::kStageBytes;
  }
  __device__ std::uint32_t weights(std::uint32_t consumer) const {
    return panel() + Size::kPanelBytes + consumer * kBlockBytes;
  }
  __device__ void advance() {
    if (++stage == n_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ __forceinline__ float read_float(std::uint32_t at) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(value) : "r"(at) : "memory");
  return value;
}

// acc = products of the ring's next n blocks.
template <int kTokens>
__device__ __forceinline__ void accumulate(Ring<kTokens>& ring, std::uint32_t n,
                                           std::uint32_t consumer, int warp, int lane,
                                           float (&acc)[kTokens / 2]) {
#pragma unroll
  for (float& each : acc) each = 0;
  for (std::uint32_t u = 0; u < n; ++u) {
    std::int32_t sums[kTokens / 2];
    barrier_wait(ring.full(ring.stage), ring.parity);
    products_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j)
      IntegerProduct<kTokens>::run(sums, swizzled_operand(ring.weights(consumer) + 32 * j),
                                   swizzled_operand(ring.panel() + 32 * j), j > 0);
    products_commit();
    const std::uint32_t of_rows = ring.weight_steps(consumer) + (warp * 16 + lane / 4) * 4;
    const float weight_step[2] = {read_float(of_rows), read_float(of_rows + 32)};
    products_wait();
#pragma unroll
    for (int m = 0; m < kTokens / 8; ++m) {
      const float2 step = scales_of(ring.steps(), m);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float product = static_cast<float>(sums[4 * m + i]) * weight_step[i / 2];
        acc[4 * m + i] = fmaf(product, i % 2 == 0 ? step.x : step.y, acc[4 * m + i]);
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.empty(ring.stage));
    ring.advance();
  }
}

// The same of all n blocks, whose parts of `part` blocks are added in their order.
template <int kTokens>
__device__ __forceinline__ void accumulate_parts(Ring<kTokens>& ring, std::uint32_t n,
                                                 std::uint32_t part, std::uint32_t consumer,
                                                 int warp, int lane, float (&acc)[kTokens / 2]) {
  float sums[kTokens / 2];
#pragma unroll
  for (float& each : acc) each = 0;  // 0 + x = x but for the sign of 0, which no result shows
  for (std::uint32_t begin = 0; begin < n; begin += part) {
    accumulate(ring, min(part, n - begin), consumer, warp, lane, sums);
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) acc[i] += sums[i];
  }
}

// Blocks of a tile along the inputs.
struct Blocks {
  std::uint32_t begin;
  std::uint32_t count;
};
template <Kind kKind>
__device__ __forceinline__ Blocks blocks_of(const GemmArgs& a, const Tile& tile) {
  const std::uint32_t n = int8_blocks(a.panel.n_cols);
  if (kKind != Kind::parts) return {0, n};
  const std::uint32_t begin = tile.split * a.units_per_split;
  return {begin, min(begin + a.units_per_split, n) - begin};
}

template <int kTokens, Kind kKind>
__device__ __forceinline__ void consume(const GemmArgs& a, const Plan& plan, Ring<kTokens> ring) {
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  wait_for_predecessor();
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of<kConsumers>(plan, number);
    const std::uint32_t n = blocks_of<kKind>(a, tile).count;
    const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    float acc[kTokens / 2];
    if constexpr (kKind == Kind::in_turn) {
      accumulate_parts(ring, n, a.units_per_split, consumer, warp, lane, acc);
    } else {
      accumulate(ring, n, consumer, warp, lane, acc);
    }
    const std::uint32_t block = tile.first_block + consumer;
    if (block >= a.n_blocks) continue;
    const GemmPart& part = a.part_of(block);
    const ResultRows rows(a, part, block * kBlockRows - part.first_col + warp * kUnitRows, tile_row,
                          lane);
    if (plan.n_parts > 1) {
      meet<kTokens, kConsumers>(a, plan, tile, consumer, acc, rows, ring.ones());
      continue;
    }
    constexpr int kBatch = kTokens % 40 == 0 ? 5 : 4;  // reads wait for the stores before them
#pragma unroll
    for (int first = 0; first < kTokens / 8; first += kBatch) {
      float4 there[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) there[b] = rows.there(first + b);
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        rows.store(first + b, four(acc, first + b), {1, 1}, there[b]);
    }
  }
}

// One warp: lanes 0 and 1 bring a consumer's weights each, 2 and 3 their steps, 4 and 5 the panel's
// block and its steps. Weights do not depend on the kernels before this one, so the first stages'
// are asked for before waiting for them.
template <int kTokens, Kind kKind>
__device__ __forceinline__ void produce(const GemmArgs& a, const Int8Panel& panel, const Plan& plan,
                                        Ring<kTokens> ring) {
  using Size = Sizes<kTokens>;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  bool first = true;
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of<kConsumers>(plan, number);
    const auto [begin, n] = blocks_of<kKind>(a, tile);
    const std::uint32_t consumer = lane % 2;
    const std::uint32_t block = tile.first_block + consumer;
    const std::uint32_t existing = block < a.n_blocks ? block : 0;
    const GemmPart& part = a.part_of(existing);
    const std::uint64_t weight_row =
        (std::uint64_t{existing - part.first_col / kBlockRows} * int8_blocks(panel.n_cols) +
         begin) *
        kBlockRows;
    const std::uint64_t panel_row = std::uint64_t{begin} * panel.padded_rows +
                                    first_tile_row<kTokens>(a.panel, tile.token_tile);
    const auto bring_weights = [&](const Ring<kTokens>& at, std::uint32_t u) {
      const std::uint64_t row = weight_row + std::uint64_t{u} * kBlockRows;
      if (lane == 0) barrier_expect(at.full(at.stage), Size::kBroughtBytes);
      __syncwarp();
      if (lane < 2)
        copy_bulk(at.weights(consumer), part.weight.int8.codes + row * kInt8Cols, kBlockBytes,
                  at.full(at.stage));
      if (lane / 2 == 1)
        copy_bulk(at.weight_steps(consumer), part.weight.int8.steps + row, kBlockStepBytes,
                  at.full(at.stage));
    };
    const auto bring_panel = [&](const Ring<kTokens>& at, std::uint32_t u) {
      const std::uint64_t row = panel_row + std::uint64_t{u} * panel.padded_rows;
      if (lane == 4)
        copy_bulk(at.panel(), panel.codes + row * kInt8Cols, Size::kPanelBytes, at.full(at.stage));
      if (lane == 5) copy_bulk(at.steps(), panel.steps + row, kTokens * 4, at.full(at.stage));
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

template <int kTokens, Kind kKind>
__global__ void __launch_bounds__(128 * (1 + kConsumers), 1)
    gemm_int8(const __grid_constant__ GemmArgs a, const __grid_constant__ Int8Panel panel,
              const __grid_constant__ Plan plan) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ std::uint8_t memory[];
  Ring<kTokens> ring;
  ring.base = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  ring.n_stages = plan.n_stages;
  if (threadIdx.x == 0) {
    for (std::uint32_t s = 0; s < plan.n_stages; ++s) {
      barrier_init(ring.full(s), 1);
      barrier_init(ring.empty(s), 4 * kConsumers);
    }
    barrier_init_fence();
  }
  if (threadIdx.x < kTokens)
    asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(ring.ones() + 4 * threadIdx.x), "f"(1.0f)
                 : "memory");
  __syncthreads();
  let_successor_start();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    if (threadIdx.x < 32) produce<kTokens, kKind>(a, panel, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
    consume<kTokens, kKind>(a, plan, ring);
  }
#endif
}

template <int kTokens, Kind kKind>
void launch_tiles(const GemmArgs& args, const Int8Panel& panel, const GemmDevice& device,
                  cudaStream_t stream) {
  using Size = Sizes<kTokens>;
  const auto kernel = gemm_int8<kTokens, kKind>;
  Plan plan = {};
  plan.n_row_groups = (args.n_blocks + kConsumers - 1) / kConsumers;
  plan.n_parts = kKind != Kind::parts ? 1 : args.n_splits;
  plan.n_token_tiles = token_tiles<kTokens>(args.panel);
  plan.n_stages =
      std::min((kSharedBytes - kAlignment - Size::kHeaderBytes) / Size::kStageBytes, kMostStages);
  const std::uint32_t bytes = kAlignment + Size::kHeaderBytes + plan.n_stages * Size::kStageBytes;
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)),
             "asking for shared memory");
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  launch("launching an int8 product", kernel, dim3(std::min(n_tiles, device.n_multiprocessors)),
         dim3(128 * (1 + kConsumers)), bytes, stream, args, panel, plan);
}

// One of the kernels above, and what a call would cost with it, in waves of tiles: a tile costs its
// rows, and about 16 more; parts that meet cost a few blocks.
struct Choice {
  void (*launch)(const GemmArgs&, const Int8Panel&, const GemmDevice&, cudaStream_t);
  std::uint64_t cost;
};

template <int kTokens, Kind kKind>
Choice choice(const GemmArgs& args, const GemmDevice& device) {
  const std::uint64_t parts = kKind != Kind::parts ? 1 : args.n_splits;
  const std::uint64_t tiles = std::uint64_t{args.n_blocks + kConsumers - 1} / kConsumers *
                              token_tiles<kTokens>(args.panel) * parts;
  const std::uint64_t waves = (tiles + device.n_multiprocessors - 1) / device.n_multiprocessors;
  const std::uint32_t blocks = int8_blocks(args.panel.n_cols);
  const std::uint32_t units = parts > 1 ? args.units_per_split + kMeetingUnits : blocks;
  return {launch_tiles<kTokens, kKind>, waves * (kTokens + 16) * units};
}

}  // namespace

void launch_int8_sm90(const GemmArgs& args, const Int8Panel& panel, const GemmDevice& device,
                      cudaStream_t stream) {
  Choice best = choice<160, Kind::parts>(args, device);
  const auto consider = [&](const Choice& other) {
    if (other.cost < best.cost) best = other;
  };
  consider(choice<96, Kind::parts>(args, device));
  consider(choice<64, Kind::parts>(args, device));
  consider(choice<32, Kind::parts>(args, device));
  if (args.n_splits > 1) consider(choice<128, Kind::in_turn>(args, device));
  best.launch(args, panel, device, stream);
}

}  // namespace dllm::cuda

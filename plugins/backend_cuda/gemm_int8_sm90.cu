// The product of int8 weights and activations for Hopper (sm_90a): integer warpgroup products, both
// operands in shared memory.
//
// A thread block takes 128 or 256 weight rows and up to kTokens input rows. Its first warpgroup is
// the producer: one warp has the copy engine bring, per 128 inputs, the weights, the block of the
// panel and their steps into a ring of stages. The other two are consumers of 64 or 128 rows each:
// while one brings the integer sums of a stage into its f32 sums, the products of the other run. A
// block stays and takes tiles until none is left.
#include <cuda_bf16.h>

#include <algorithm>

#include "gemm_common.cuh"
#include "gemm_gated.cuh"
#include "gemm_int8.hpp"
#include "gemm_tiles.cuh"
#include "int8_sums.cuh"
#include "launch.cuh"

namespace dllm::cuda {
namespace {

using namespace int8;

enum class Kind {
  parts,    // tiles take a part of the inputs each, which meet in memory
  in_turn,  // a tile takes all parts, one after the other
  gated     // half of a tile is rows of gate, half the same rows of up; one part
};

#if defined(DLLM_WARPGROUPS)

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

// silu(gate) * up of a warp's eight columns from `col`: accumulators 4 n and 4 n + 1 are gate, 4 n
// + 2 and 4 n + 3 up, of column lane / 4 and input rows 8 n + 2 (lane % 4) + {0, 1}.
template <int kTokens>
__device__ __forceinline__ void store_products(const GemmArgs& a, const GatedRows& to,
                                               std::uint32_t tile_row, std::uint32_t col, int lane,
                                               const float (&acc)[kTokens / 2]) {
  const float gate_scale = a.parts[0].weight.out_scale;
  const float up_scale = a.parts[1].weight.out_scale;
  std::uint32_t row = tile_row + lane / 4;
#pragma unroll
  for (int n = 0; n < kTokens / 8; ++n, row += 8) {
    const float first = silu(acc[4 * n] * gate_scale) * (acc[4 * n + 2] * up_scale);
    const float second = silu(acc[4 * n + 1] * gate_scale) * (acc[4 * n + 3] * up_scale);
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    const std::uint32_t words = transposed(*reinterpret_cast<const std::uint32_t*>(&both));
    if (row < to.n_rows && col < to.stride)
      *reinterpret_cast<std::uint32_t*>(to.values + std::uint64_t{row} * to.stride + col +
                                        2 * (lane % 4)) = words;
  }
}

template <int kTokens>
__device__ __forceinline__ void store_sums(const ResultRows& rows,
                                           const float (&acc)[kTokens / 2]) {
  constexpr int kBatch = kTokens % 40 == 0 ? 5 : 4;  // reads wait for the stores before them
#pragma unroll
  for (int first = 0; first < kTokens / 8; first += kBatch) {
    float4 there[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) there[b] = rows.there(first + b);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) rows.store(first + b, four(acc, first + b), {1, 1}, there[b]);
  }
}

template <int kTokens, int kPer, Kind kKind>
__device__ __forceinline__ void consume(const GemmArgs& a, const GatedRows& products,
                                        const Plan& plan, Ring<kTokens, kPer> ring) {
  static_assert(kPer == 1 || kKind != Kind::in_turn);
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  if (consumer == 1) give_turn(0);  // the first
  wait_for_predecessor();
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of<kConsumers * kPer>(plan, number);
    const std::uint32_t n = blocks_of<kKind>(a, tile).count;
    const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    float acc[kPer][kTokens / 2];
    if constexpr (kKind == Kind::in_turn) {
      accumulate_parts(ring, n, a.units_per_split, consumer, warp, lane, acc[0]);
    } else {
      accumulate(ring, n, consumer, warp, lane, acc);
    }
#pragma unroll
    for (int p = 0; p < kPer; ++p) {
      const std::uint32_t block = tile.first_block + consumer * kPer + p;
      if constexpr (kKind == Kind::gated) {
        store_products<kTokens>(a, products, tile_row, block * kGatedCols + 8 * warp, lane, acc[p]);
      } else {
        if (block >= a.n_blocks) continue;
        const GemmPart& part = a.part_of(block);
        const ResultRows rows(a, part, block * kBlockRows - part.first_col + warp * kUnitRows,
                              tile_row, lane);
        if constexpr (kPer == 1) {
          if (plan.n_parts > 1) {
            meet<kTokens, kConsumers>(a, plan, tile, consumer, acc[p], rows, ring.ones());
            continue;
          }
        }
        store_sums<kTokens>(rows, acc[p]);
      }
    }
  }
  if (consumer == 0) await_turn(0);  // the last that was given
}

// What a lane of the producer brings of a stage's weights and their steps: a block each, or eight
// rows of gate or up, in turns.
template <int kTokens, int kPer, Kind kKind>
struct WeightSource {
  static constexpr std::uint32_t kRows = kKind == Kind::gated ? 8 : kBlockRows;
  static constexpr std::uint32_t kLanes = kConsumers * kPer * kBlockRows / kRows;
  static constexpr std::uint32_t kOfBlock = kBlockRows / kRows;  // lanes

  const std::int8_t* codes;
  const float* steps;
  std::uint32_t block;  // of the stage
  std::uint32_t place;  // first row in the block

  __device__ __forceinline__ WeightSource(const GemmArgs& a, const Tile& tile, std::uint32_t lane,
                                          std::uint32_t begin) {
    lane %= kLanes;
    block = lane / kOfBlock;
    place = lane % kOfBlock * kRows;
    std::uint32_t row;  // of the matrix
    const Packed* weight;
    if constexpr (kKind == Kind::gated) {
      weight = &a.parts[lane % 2].weight;
      row = (tile.first_block + block) * kGatedCols + lane % kOfBlock / 2 * kRows;
      if (row >= weight->n_blocks() * kBlockRows) row = 0;
    } else {
      const std::uint32_t of_call = tile.first_block + block;
      const std::uint32_t existing = of_call < a.n_blocks ? of_call : 0;
      const GemmPart& part = a.part_of(existing);
      weight = &part.weight;
      row = existing * kBlockRows - part.first_col;
    }
    const std::uint64_t first =
        (std::uint64_t{row / kBlockRows} * int8_blocks(weight->n_cols) + begin) * kBlockRows +
        row % kBlockRows;
    codes = weight->int8.codes + first * kInt8Cols;
    steps = weight->int8.steps + first;
  }

  // Of the `u`-th block of inputs from the first.
  __device__ __forceinline__ void bring(const Ring<kTokens, kPer>& at, std::uint32_t lane,
                                        std::uint32_t u) const {
    if (lane >= kLanes) return;
    copy_bulk(at.weights(block) + place * kInt8Cols, codes + std::uint64_t{u} * kBlockBytes,
              kRows * kInt8Cols, at.full(at.stage));
    copy_bulk(at.weight_steps(block) + place * 4, steps + std::uint64_t{u} * kBlockRows, kRows * 4,
              at.full(at.stage));
  }
};

// One warp: the first lanes bring weights, lanes 0 and 1 the panel's block and its steps, too.
// Weights do not depend on the kernels before this one, so the first stages' are asked for before
// waiting for them.
template <int kTokens, int kPer, Kind kKind>
__device__ __forceinline__ void produce(const GemmArgs& a, const Int8Panel& panel, const Plan& plan,
                                        Ring<kTokens, kPer> ring) {
  using Size = Sizes<kTokens, kPer>;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  bool first = true;
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of<kConsumers * kPer>(plan, number);
    const auto [begin, n] = blocks_of<kKind>(a, tile);
    const WeightSource<kTokens, kPer, kKind> source(a, tile, lane, begin);
    const std::uint64_t panel_row = std::uint64_t{begin} * panel.padded_rows +
                                    first_tile_row<kTokens>(a.panel, tile.token_tile);
    const auto bring_weights = [&](const Ring<kTokens, kPer>& at, std::uint32_t u) {
      if (lane == 0) barrier_expect(at.full(at.stage), Size::kBroughtBytes);
      __syncwarp();
      source.bring(at, lane, u);
    };
    const auto bring_panel = [&](const Ring<kTokens, kPer>& at, std::uint32_t u) {
      const std::uint64_t row = panel_row + std::uint64_t{u} * panel.padded_rows;
      if (lane == 0)
        copy_bulk(at.panel(), panel.codes + row * kInt8Cols, Size::kPanelBytes, at.full(at.stage));
      if (lane == 1) copy_bulk(at.steps(), panel.steps + row, kTokens * 4, at.full(at.stage));
    };
    std::uint32_t done = 0;
    if (first) {
      done = min(n, ring.n_stages);
      Ring<kTokens, kPer> ahead = ring;
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

template <int kTokens, int kPer, Kind kKind>
__global__ void __launch_bounds__(128 * (1 + kConsumers), 1)
    gemm_int8(const __grid_constant__ GemmArgs a, const __grid_constant__ Int8Panel panel,
              const __grid_constant__ GatedRows products, const __grid_constant__ Plan plan) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ std::uint8_t memory[];
  Ring<kTokens, kPer> ring;
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
    if (threadIdx.x < 32) produce<kTokens, kPer, kKind>(a, panel, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
    consume<kTokens, kPer, kKind>(a, products, plan, ring);
  }
#endif
}

template <int kTokens, int kPer, Kind kKind>
void launch_tiles(const GemmArgs& args, const Int8Panel& panel, const GatedRows& products,
                  const GemmDevice& device, cudaStream_t stream) {
  using Size = Sizes<kTokens, kPer>;
  const auto kernel = gemm_int8<kTokens, kPer, kKind>;
  Plan plan = {};
  plan.n_row_groups = (args.n_blocks + Size::kBlocks - 1) / Size::kBlocks;
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
         dim3(128 * (1 + kConsumers)), bytes, stream, args, panel, products, plan);
}

// One of the kernels above, and what a call would cost with it: waves of tiles, where a tile costs
// its rows and about 16 more, or what all tiles read of the cache between device memory
// and the multiprocessors; parts that meet cost a few blocks.
struct Choice {
  void (*launch)(const GemmArgs&, const Int8Panel&, const GatedRows&, const GemmDevice&,
                 cudaStream_t);
  std::uint64_t cost;
};

template <int kTokens, int kPer, Kind kKind>
Choice choice(const GemmArgs& args, const GemmDevice& device) {
  constexpr int kBlocks = kConsumers * kPer;
  const std::uint64_t parts = kKind != Kind::parts ? 1 : args.n_splits;
  const std::uint64_t tiles = std::uint64_t{args.n_blocks + kBlocks - 1} / kBlocks *
                              token_tiles<kTokens>(args.panel) * parts;
  const std::uint64_t waves = (tiles + device.n_multiprocessors - 1) / device.n_multiprocessors;
  const std::uint32_t blocks = int8_blocks(args.panel.n_cols);
  const std::uint32_t units = parts > 1 ? args.units_per_split + kMeetingUnits : blocks;
  // Bytes at about 40 a cycle and multiprocessor, multiplications at 4096 (H200).
  const std::uint64_t reading =
      4 * tiles * (kBlocks * kBlockRows + kTokens) / (5 * device.n_multiprocessors);
  const std::uint64_t multiplying = waves * (kTokens + 16) * kPer;
  return {launch_tiles<kTokens, kPer, kKind>, std::max(multiplying, reading) * units};
}

struct Best {
  Choice choice = {nullptr, ~std::uint64_t{0}};
  void consider(const Choice& other) {
    if (other.cost < choice.cost) choice = other;
  }
};

}  // namespace

void launch_int8_sm90(const GemmArgs& args, const Int8Panel& panel, const GemmDevice& device,
                      cudaStream_t stream) {
  Best best;
  best.consider(choice<160, 1, Kind::parts>(args, device));
  best.consider(choice<96, 1, Kind::parts>(args, device));
  best.consider(choice<64, 1, Kind::parts>(args, device));
  best.consider(choice<32, 1, Kind::parts>(args, device));
  if (args.n_splits > 1) {
    best.consider(choice<128, 1, Kind::in_turn>(args, device));
  } else {
    best.consider(choice<128, 2, Kind::parts>(args, device));
  }
  best.choice.launch(args, panel, {}, device, stream);
}

void launch_gated_int8(const Packed& gate, const Packed& up, const Int8Panel& panel,
                       const GatedRows& products, const GemmDevice& device, cudaStream_t stream) {
  GemmArgs args = {};
  args.parts[0].weight = gate;
  args.parts[1].weight = up;
  args.n_parts = 2;
  args.n_blocks = (gate.n_rows + kGatedCols - 1) / kGatedCols;
  args.n_splits = 1;
  args.panel = {nullptr, nullptr, panel.n_rows, panel.n_cols, panel.padded_rows, panel.first_row};
  Best best;
  best.consider(choice<128, 2, Kind::gated>(args, device));
  best.consider(choice<160, 1, Kind::gated>(args, device));
  best.consider(choice<96, 1, Kind::gated>(args, device));
  best.consider(choice<64, 1, Kind::gated>(args, device));
  best.consider(choice<32, 1, Kind::gated>(args, device));
  best.choice.launch(args, panel, products, device, stream);
}

}  // namespace dllm::cuda

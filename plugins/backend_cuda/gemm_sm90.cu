// The product for Hopper (sm_90a): warpgroup products with the weights in registers.
//
// A thread block takes 192 or 128 weight rows and up to kTokens input rows. Its first warpgroup is
// the producer: one warp has the copy engine bring, per 64 inputs, the quantised weights and the
// block of the panel into a ring of stages. The other three or two are consumers: each reads the
// quantised codes of its own 64 rows, unpacks them in registers and multiplies them with the
// stage's inputs; while one unpacks, the products of the others run. Two consumers have registers
// to unpack the next codes while their own products run, too. A block stays and takes tiles until
// none is left.
#include <algorithm>

#include "async_copy.cuh"
#include "gemm_common.cuh"
#include "gemm_gated.cuh"
#include "gemm_tiles.cuh"
#include "launch.cuh"
#include "wgmma.cuh"

namespace dllm::cuda {
namespace {

constexpr std::uint32_t kMostConsumers = 3;
static_assert(kMostConsumers * kBlockRows == kGemmRowsSm90);
constexpr std::uint32_t kMostStages = 12;
constexpr std::uint32_t kAlignment = 1024;  // of a stage: eight swizzled rows
constexpr std::uint32_t kSharedBytes = 227 * 1024;
constexpr std::uint32_t kBarrierBytes = 2 * kMostStages * 8;
constexpr std::uint32_t kWidestTokens = 256;  // with two consumers, whose inputs are not split
constexpr std::uint32_t kHeaderBytes = 5 * kAlignment;  // barriers and scales, before the stages
static_assert(kBarrierBytes + 2 * kMostConsumers * kMostTokens * 4 <= kHeaderBytes);
static_assert(kBarrierBytes + 2 * 2 * kWidestTokens * 4 <= kHeaderBytes);
static_assert(kWidestTokens <= Panel::kSpareRows);

enum class Kind {
  parts,    // tiles take a part of the inputs each, which meet in memory
  in_turn,  // a tile takes all parts, one after the other
  whole,    // there is one part
  gated     // half of a tile is rows of gate, half the same rows of up; one part
};

#if defined(DLLM_WARPGROUPS)

// The ring: `full` completes when a stage's bytes are there, `empty` when every consuming warp
// has let go of it.
template <int kTokens, int kConsumers>
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
  /// Of the products' rows, in gated calls.
  __device__ std::uint32_t product_scales(std::uint32_t consumer) const {
    return scales(kConsumers + consumer);
  }
  __device__ void advance() {
    if (++stage == n_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <Form kForm, int kTokens, int kConsumers, Kind kKind>
struct Consumer {
  Ring<kTokens, kConsumers>& ring;
  std::uint32_t consumer;
  int warp;
  int lane;

  // Operands of the ring's stage, when it is there.
  __device__ __forceinline__ void unpack(std::uint32_t (&operand)[4][4]) const {
    barrier_wait(ring.full(ring.stage), ring.parity);
    constexpr std::uint32_t kUnitBytes = form_facts(kForm).unit_bytes();
    Unit<kForm> unit;
    if constexpr (kKind == Kind::gated) {
      // Two units of gate and the same two of up: a warp takes eight rows of each.
      Unit<kForm> up;
      const std::uint32_t at = ring.weights(consumer) + warp / 2 * kUnitBytes;
      unit.load_shared(at, lane);
      up.load_shared(at + 2 * kUnitBytes, lane);
      unit.choose_rows(warp % 2 != 0);
      up.choose_rows(warp % 2 != 0);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        operand[j][0] = unit.pair(j, 0);
        operand[j][1] = up.pair(j, 0);
        operand[j][2] = unit.pair(j, 2);
        operand[j][3] = up.pair(j, 2);
      }
    } else {
      unit.load_shared(ring.weights(consumer) + warp * kUnitBytes, lane);
#pragma unroll
      for (int j = 0; j < 4; ++j) unit.operand(j, operand[j]);
    }
  }

  __device__ __forceinline__ void start(const std::uint32_t (&operand)[4][4], bool adds,
                                        float (&acc)[kTokens / 2]) const {
    const std::uint32_t panel = ring.panel();
    products_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j)
      WarpgroupProduct<kTokens>::run(acc, operand[j], swizzled_operand(panel + 32 * j),
                                     j > 0 || adds);
    products_commit();
  }

  // Starts the products of the stage; meanwhile unpacks the next one, if there is one.
  __device__ __forceinline__ void turn(const std::uint32_t (&operand)[4][4],
                                       std::uint32_t (&next)[4][4], bool first, bool last,
                                       float (&acc)[kTokens / 2]) {
    start(operand, !first, acc);
    const std::uint32_t used = ring.empty(ring.stage);
    ring.advance();
    if (!last) unpack(next);
    products_wait();
    __syncwarp();  // the other lanes' reads, too, come before the arrival
    if (lane == 0) barrier_arrive(used);
    // Products read their registers until here.
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("" ::"r"(operand[j][0]), "r"(operand[j][1]), "r"(operand[j][2]),
                   "r"(operand[j][3]));
  }

  // acc = products of the ring's next n units.
  __device__ __forceinline__ void accumulate(std::uint32_t n, float (&acc)[kTokens / 2]) {
    if constexpr (kConsumers == 2) {
      std::uint32_t even[4][4];
      std::uint32_t odd[4][4];
      unpack(even);
      for (std::uint32_t u = 0; u < n; u += 2) {
        turn(even, odd, u == 0, u + 1 == n, acc);
        if (u + 1 < n) turn(odd, even, false, u + 2 == n, acc);
      }
    } else {
      for (std::uint32_t u = 0; u < n; ++u) {
        std::uint32_t operand[4][4];
        unpack(operand);
        start(operand, u > 0, acc);
        products_wait();
        __syncwarp();
        if (lane == 0) barrier_arrive(ring.empty(ring.stage));
        ring.advance();
      }
    }
  }

  // The same of all n units, whose parts of `part` units are added in their order.
  __device__ __forceinline__ void accumulate_parts(std::uint32_t n, std::uint32_t part,
                                                   float (&acc)[kTokens / 2]) {
    float sums[kTokens / 2];  // of the running part
    std::uint32_t even[4][4];
    std::uint32_t odd[4][4];
    std::uint32_t left = part;
    const auto take = [&](const std::uint32_t(&operand)[4][4], std::uint32_t(&next)[4][4],
                          bool last) {
      turn(operand, next, left == part, last, sums);
      if (--left > 0 && !last) return;
      left = part;
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) acc[i] += sums[i];
    };
#pragma unroll
    for (float& each : acc) each = 0;  // 0 + x = x but for the sign of 0, which no result shows
    unpack(even);
    for (std::uint32_t u = 0; u < n; u += 2) {
      take(even, odd, u + 1 == n);
      if (u + 1 < n) take(odd, even, u + 2 == n);
    }
  }
};

template <Form kForm, int kTokens, int kConsumers, Kind kKind>
__device__ __forceinline__ void sum_tile(const GemmArgs& a, Ring<kTokens, kConsumers>& ring,
                                         std::uint32_t n, std::uint32_t consumer, int warp,
                                         int lane, float (&acc)[kTokens / 2]) {
  Consumer<kForm, kTokens, kConsumers, kKind> at = {ring, consumer, warp, lane};
  if constexpr (kKind == Kind::in_turn) {
    at.accumulate_parts(n, a.units_per_split, acc);
  } else {
    at.accumulate(n, acc);
  }
}

// Units of a tile.
struct Units {
  std::uint32_t begin;
  std::uint32_t count;
};
template <Kind kKind>
__device__ __forceinline__ Units units_of(const GemmArgs& a, const Tile& tile) {
  if (kKind != Kind::parts) return {0, a.n_units()};
  const std::uint32_t begin = tile.split * a.units_per_split;
  return {begin, min(begin + a.units_per_split, a.n_units()) - begin};
}

template <int kTokens, int kConsumers, Kind kKind>
__device__ __forceinline__ void consume(const GemmArgs& a, const Plan& plan,
                                        Ring<kTokens, kConsumers> ring) {
  const std::uint32_t consumer = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) - 1;
  const int warp = static_cast<int>(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32 % 4, 0));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  wait_for_predecessor();
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of<kConsumers>(plan, number);
    const std::uint32_t n = units_of<kKind>(a, tile).count;
    const std::uint32_t tile_row = first_tile_row<kTokens>(a.panel, tile.token_tile);
    const TileScales<kTokens> scales(a.panel, tile_row);
    const TileScales<kTokens> product_scales(kKind == Kind::gated ? a.products : a.panel, tile_row);
    const std::uint32_t block = tile.first_block + consumer;
    const bool exists = kKind == Kind::gated || block < a.n_blocks;
    const GemmPart& part = a.part_of(kKind != Kind::gated && exists ? block : 0);
    float acc[kTokens / 2];
    with_form(part.weight.form, [&](auto form) {
      sum_tile<decltype(form)::value, kTokens, kConsumers, kKind>(a, ring, n, consumer, warp, lane,
                                                                  acc);
    });
    consumer_sync(consumer);  // the tile before is stored
    scales.keep(ring.scales(consumer));
    if constexpr (kKind == Kind::gated)
      product_scales.template keep<true>(ring.product_scales(consumer));
    consumer_sync(consumer);
    if constexpr (kKind == Kind::gated) {
      // Columns that fill up the last tile lie beyond the panel.
      const std::uint32_t col = block * (kBlockRows / 2) + 8 * warp;
      if (col < Panel::padded_cols(a.products.n_cols))
        store_products<kTokens>(a, tile_row, col, lane, ring.scales(consumer),
                                ring.product_scales(consumer), acc);
      continue;
    }
    if (!exists) continue;
    const ResultRows rows(a, part, block * kBlockRows - part.first_col + warp * kUnitRows, tile_row,
                          lane);
    if constexpr (kKind == Kind::parts) {
      if (plan.n_parts > 1) {
        meet<kTokens, kConsumers>(a, plan, tile, consumer, acc, rows, ring.scales(consumer));
        continue;
      }
    }
    store_sums<kTokens>(acc, rows, ring.scales(consumer));
  }
}

// What a lane of the producer brings of a tile's weights.
struct Source {
  const std::uint8_t* from = nullptr;  // of the tile's first unit
  std::uint64_t step = 0;              // from unit to unit
  std::uint32_t bytes = 0;
  std::uint32_t consumer = 0;
  std::uint32_t place = 0;  // of the consumer's bytes
};

template <int kConsumers, Kind kKind>
__device__ __forceinline__ Source source_of(const GemmArgs& a, const Tile& tile, std::uint32_t lane,
                                            std::uint32_t begin) {
  Source source;
  if constexpr (kKind == Kind::gated) {
    // Lanes 0 to 2 bring half a block of gate for a consumer, lanes 4 to 6 of up.
    source.consumer = lane % 4;
    if (source.consumer >= kConsumers || lane >= 8) return source;
    const Packed& weight = a.parts[lane / 4].weight;
    const std::uint32_t unit_bytes = form_facts(weight.form).unit_bytes();
    const std::uint32_t half = tile.first_block + source.consumer;
    source.from = weight.units + weight.unit_offset(half < a.n_blocks ? 2 * half : 0, begin);
    source.step = kBlockUnits * unit_bytes;
    source.bytes = 2 * unit_bytes;
    source.place = lane / 4 * source.bytes;
  } else {
    source.consumer = lane;
    if (lane >= kConsumers) return source;
    const std::uint32_t block = tile.first_block + lane;
    const std::uint32_t existing = block < a.n_blocks ? block : 0;
    const GemmPart& part = a.part_of(existing);
    source.from =
        part.weight.units +
        part.weight.unit_offset((existing - part.first_col / kBlockRows) * kBlockUnits, begin);
    source.bytes = kBlockUnits * form_facts(part.weight.form).unit_bytes();
    source.step = source.bytes;
  }
  return source;
}

// One warp: the first lanes bring the weights of a consumer each, the next the panel's block.
// Weights do not depend on the kernels before this one, so the first stages' are asked for before
// waiting for them.
template <int kTokens, int kConsumers, Kind kKind>
__device__ __forceinline__ void produce(const GemmArgs& a, const Plan& plan,
                                        Ring<kTokens, kConsumers> ring) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  bool first = true;
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of<kConsumers>(plan, number);
    const auto [begin, n] = units_of<kKind>(a, tile);
    const Source source = source_of<kConsumers, kKind>(a, tile, lane, begin);
    std::uint32_t all_bytes = source.bytes;
    for (int offset = 16; offset > 0; offset /= 2)
      all_bytes += __shfl_xor_sync(0xFFFFFFFFu, all_bytes, offset);
    all_bytes += Ring<kTokens, kConsumers>::kPanelBytes;
    const std::uint8_t* panel = reinterpret_cast<const std::uint8_t*>(
        a.panel.values + (static_cast<std::uint64_t>(begin) * a.panel.padded_rows +
                          first_tile_row<kTokens>(a.panel, tile.token_tile)) *
                             kUnitCols);
    const std::uint64_t panel_step = std::uint64_t{a.panel.padded_rows} * 128;
    const auto bring_weights = [&](const Ring<kTokens, kConsumers>& at, std::uint32_t u) {
      if (lane == 0) barrier_expect(at.full(at.stage), all_bytes);
      __syncwarp();
      if (source.bytes > 0)
        copy_bulk(at.weights(source.consumer) + source.place, source.from + u * source.step,
                  source.bytes, at.full(at.stage));
    };
    const auto bring_panel = [&](const Ring<kTokens, kConsumers>& at, std::uint32_t u) {
      if (lane == kConsumers)
        copy_bulk(at.panel(), panel + u * panel_step, Ring<kTokens, kConsumers>::kPanelBytes,
                  at.full(at.stage));
    };
    std::uint32_t done = 0;
    if (first) {
      done = min(n, ring.n_stages);
      Ring<kTokens, kConsumers> ahead = ring;
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

template <int kTokens, int kConsumers, Kind kKind>
__global__ void __launch_bounds__(128 * (1 + kConsumers), 1)
    gemm(const __grid_constant__ GemmArgs a, const __grid_constant__ Plan plan) {
#if defined(DLLM_WARPGROUPS)
  extern __shared__ std::uint8_t memory[];
  Ring<kTokens, kConsumers> ring;
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
    if (threadIdx.x < 32) produce<kTokens, kConsumers, kKind>(a, plan, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kConsumers == 2 ? 232 : 152));
    consume<kTokens, kConsumers, kKind>(a, plan, ring);
  }
#endif
}

template <int kTokens, int kConsumers, Kind kKind>
void launch_tiles(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
  const auto kernel = gemm<kTokens, kConsumers, kKind>;
  Plan plan = {};
  plan.n_row_groups = (args.n_blocks + kConsumers - 1) / kConsumers;
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
};

// In waves of tiles: a tile costs its rows, and about 16 more for unpacking what is then used for
// few; parts that meet cost kMeetingUnits.
template <int kTokens, int kConsumers, Kind kKind>
Choice choice(const GemmArgs& args, const GemmDevice& device) {
  const std::uint64_t parts = kKind != Kind::parts ? 1 : args.n_splits;
  const std::uint64_t tiles = std::uint64_t{args.n_blocks + kConsumers - 1} / kConsumers *
                              token_tiles<kTokens>(args.panel) * parts;
  const std::uint64_t waves = (tiles + device.n_multiprocessors - 1) / device.n_multiprocessors;
  const std::uint32_t units = kKind == Kind::in_turn ? args.n_units() + args.n_splits
                              : args.n_splits > 1    ? args.units_per_split + kMeetingUnits
                                                     : args.n_units();
  return {launch_tiles<kTokens, kConsumers, kKind>, waves * (kTokens + 16) * kConsumers * units};
}

struct Best {
  Choice choice = {nullptr, ~std::uint64_t{0}};
  void consider(const Choice& other) {
    if (other.cost < choice.cost) choice = other;
  }
};

}  // namespace

void launch_gemm_sm90(const GemmArgs& args, const GemmDevice& device, cudaStream_t stream) {
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

}  // namespace dllm::cuda

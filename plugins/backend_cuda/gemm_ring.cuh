// The ring of stages of the Hopper product: what producer and consumers share, and in what order
// stages are filled.
#pragma once

#include <cstdint>

#include "async_copy.cuh"
#include "gemm_common.cuh"
#include "gemm_tiles.cuh"
#include "launch.cuh"

namespace dllm::cuda {

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
  parts,    // tiles take a part of the inputs each, or there is one part
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

// Of stages whose weights are asked for before the panel may be: they come one after the other, and
// more of them would keep the first stage's panel waiting (by 1.3 us, if it were all).
constexpr std::uint32_t kEarlyStages = 2;

// All lanes of the producing warp: has the ring's next n stages filled, those of a tile, as they
// become free. `bring_weights(at, u)` announces the bytes of stage number u and asks for its
// weights, `bring_panel(at, u)` for its inputs. Weights do not depend on the kernels before this
// one, so those of the block's `first` stages are asked for before waiting for them.
template <typename AnyRing, typename Weights, typename Panels>
__device__ __forceinline__ void fill_stages(AnyRing& ring, std::uint32_t n, bool& first,
                                            const Weights& bring_weights,
                                            const Panels& bring_panel) {
  std::uint32_t done = 0;
  if (first) {
    done = min(n, ring.n_stages);
    AnyRing ahead = ring;
    std::uint32_t asked = 0;
    for (; asked < min(done, kEarlyStages); ++asked, ahead.advance()) bring_weights(ahead, asked);
    wait_for_predecessor();
    for (std::uint32_t u = 0; u < done; ++u, ring.advance()) {
      bring_panel(ring, u);
      if (asked == done) continue;
      bring_weights(ahead, asked++);
      ahead.advance();
    }
    first = false;
  }
  for (std::uint32_t u = done; u < n; ++u, ring.advance()) {
    barrier_wait(ring.empty(ring.stage), ring.parity ^ 1);
    bring_weights(ring, u);
    bring_panel(ring, u);
  }
}

/// By all threads of a block, before the ring is used. `n_warps`: that consume.
template <typename AnyRing>
__device__ __forceinline__ void begin_ring(const AnyRing& ring, std::uint32_t n_warps) {
  if (threadIdx.x == 0) {
    for (std::uint32_t s = 0; s < ring.n_stages; ++s) {
      barrier_init(ring.full(s), 1);
      barrier_init(ring.empty(s), n_warps);
    }
    barrier_init_fence();
  }
}

/// A consuming warp waits for the ring's next stages; `stages`: the ring at each of them.
template <typename AnyRing, std::uint32_t kStages>
__device__ __forceinline__ void wait_for_stages(const AnyRing& ring, AnyRing (&stages)[kStages]) {
  AnyRing at = ring;
#pragma unroll
  for (std::uint32_t s = 0; s < kStages; ++s, at.advance()) {
    stages[s] = at;
    barrier_wait(at.full(at.stage), at.parity);
  }
}

/// It lets go of them.
template <std::uint32_t kStages, typename AnyRing>
__device__ __forceinline__ void let_go(AnyRing& ring, int lane) {
  __syncwarp();  // the other lanes' reads, too, come before the arrival
#pragma unroll
  for (std::uint32_t s = 0; s < kStages; ++s, ring.advance())
    if (lane == 0) barrier_arrive(ring.empty(ring.stage));
}

/// It lets go of n stages that hold nothing for it.
template <typename AnyRing>
__device__ __forceinline__ void skip_stages(AnyRing& ring, std::uint32_t n, int lane) {
  for (; n > 0; --n) {
    barrier_wait(ring.full(ring.stage), ring.parity);
    let_go<1>(ring, lane);
  }
}

#endif

}  // namespace dllm::cuda

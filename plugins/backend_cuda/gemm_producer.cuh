// The producer of the Hopper product: weights and inputs into the ring.
#pragma once

#include "async_copy.cuh"
#include "gemm_ring.cuh"

namespace dllm::cuda {

#if defined(DLLM_WARPGROUPS)

// What a lane of the producer brings of a tile's weights.
struct Source {
  const std::uint8_t* from = nullptr;  // of the tile's first unit
  std::uint64_t step = 0;              // from unit to unit
  std::uint32_t bytes = 0;
  std::uint32_t consumer = 0;
  std::uint32_t place = 0;  // of the consumer's bytes
};

template <Kind kKind>
__device__ __forceinline__ Source source_of(const GemmArgs& a, const Tile& tile, std::uint32_t lane,
                                            std::uint32_t begin) {
  Source source;
  if constexpr (kKind == Kind::gated) {
    // Lanes 0 to 2 bring half a block of gate for a consumer, lanes 4 to 6 of up.
    source.consumer = lane % 4;
    if (source.consumer >= tile.n_blocks || lane >= 8) return source;
    const Packed& weight = a.parts[lane / 4].weight;
    const std::uint32_t unit_bytes = form_facts(weight.form).unit_bytes();
    const std::uint32_t half = tile.first_block + source.consumer;
    source.from = weight.units + weight.unit_offset(2 * half, begin);
    source.step = kBlockUnits * unit_bytes;
    source.bytes = 2 * unit_bytes;
    source.place = lane / 4 * source.bytes;
  } else {
    source.consumer = lane;
    if (lane >= tile.n_blocks) return source;
    const std::uint32_t block = tile.first_block + lane;
    const GemmPart& part = a.part_of(block);
    source.from =
        part.weight.units +
        part.weight.unit_offset((block - part.first_col / kBlockRows) * kBlockUnits, begin);
    source.bytes = kBlockUnits * form_facts(part.weight.form).unit_bytes();
    source.step = source.bytes;
  }
  return source;
}

// One warp: the first lanes bring the weights of a consumer each, the next the panel's block.
template <int kTokens, int kConsumers, Kind kKind>
__device__ __forceinline__ void produce(const GemmArgs& a, const Plan& plan,
                                        Ring<kTokens, kConsumers> ring) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t n_tiles = plan.n_row_groups * plan.n_parts * plan.n_token_tiles;
  bool first = true;
  for (std::uint32_t number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const Tile tile = tile_of(plan, number);
    const auto [begin, n] = units_of<kKind>(a, tile);
    const Source source = source_of<kKind>(a, tile, lane, begin);
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
    fill_stages(ring, n, first, bring_weights, bring_panel);
  }
}

#endif

}  // namespace dllm::cuda

// The arithmetic of head_stats on one row, whole or tile by tile; definitions: dllm/head_stats.hpp.
//
// Two ways lead to the same figures. A row without filters is streamed: each tile of the vocabulary
// gives a TilePartial, and partials merge in tile order. A row with top_p, top_k or a top list is
// stored and looked at whole (head_filter.cpp). Sums of exponentials are in double over f32
// exponentials (relative error 2.5e-7); draws compare in double.
#pragma once

#include <cstdint>

#include "dllm/head_stats.hpp"
#include "kernels.hpp"

namespace dllm::cpu {

/// One row to answer.
struct HeadRow {
  const StatsRequest* request = nullptr;
  std::uint32_t row = 0;       ///< of `hidden` and of the answers
  std::uint32_t pair_row = 0;  ///< its unconditional twin, where request->guided
  std::uint32_t position = 0;  ///< canvas position
};

/// The best candidate so far. `value` is l where temperature is 0, else z + g.
struct Draw {
  double value = -__builtin_inf();
  std::int32_t id = -1;
  float logit = 0;
};

/// What one tile says about D, the distribution confidence is taken from.
struct TilePartial {
  double sum = 0;       ///< of exp(d), d relative to `max`
  double weighted = 0;  ///< of exp(d) * d
  Draw draw;
  float max = -__builtin_inff();
  float second = -__builtin_inff();  ///< second largest logit
  float argmax_logit = -__builtin_inff();
  std::int32_t argmax = -1;
  bool bad = false;  ///< NaN or +inf seen
};

/// l = u + (w + 1)(c - u), in place.
void blend(float* logits, const float* pair, std::uint32_t n, float guidance_scale);

/// Sets -inf what the request suppresses everywhere, among ids [first_id, first_id + n); true where
/// there was any.
bool suppress(const StatsRequest& request, std::uint32_t first_id, std::uint32_t n, float* logits);

/// Sets -inf ids of `suppress_confidence` in the range; true where there was one.
bool suppress_confidence(const StatsRequest& request, std::uint32_t first_id, std::uint32_t n,
                         float* logits);
bool has_no_confidence(const StatsRequest& request, std::int32_t id);

/// Raises `best` by the candidates of one stretch (first_id a multiple of 4), temperature > 0.
/// best.value starts as the value of any of the row's candidates, so that few need a logarithm; its
/// id is -1 until one here reaches it.
void draw_candidates(const Kernels& kernels, const StatsRequest& request, std::uint32_t position,
                     std::uint32_t first_id, const float* logits, std::uint32_t n, Draw& best);
/// The exact noised value of one id.
double noised(const StatsRequest& request, std::uint32_t position, std::int32_t id, float logit);

/// One tile of a streamed row. `logits` are the tile's (after guidance) and get overwritten;
/// `best_elsewhere`: the draw value of another tile, or -inf, below which no draw is reported;
/// `probes[j]` receives the logit of request.prob_of[j] where the tile holds that id.
TilePartial reduce_tile(const Kernels& kernels, const HeadRow& row, std::uint32_t first_id,
                        float* logits, std::uint32_t n, double best_elsewhere, float* probes);

/// The tiles of a row, in order, as one.
TilePartial merge_tiles(const TilePartial* tiles, std::uint32_t n_tiles, float inverse_temperature);

/// Probability under D of an id with this logit; -inf has none.
double probability(const TilePartial& row, float logit, float inverse_temperature);

/// Writes what the request wants, except the top list.
void write_row(const HeadRow& row, const TilePartial& whole, const float* probes, HeadStats& stats);

}  // namespace dllm::cpu

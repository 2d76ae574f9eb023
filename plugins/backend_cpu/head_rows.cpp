#include "head_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dllm_sdk/philox.h"

namespace dllm::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// True where the range has one of the ids.
bool suppress_ids(std::span<const std::int32_t> ids, std::uint32_t first_id, std::uint32_t n,
                  float* logits) {
  bool any = false;
  for (const std::int32_t id : ids) {
    const std::int64_t i = std::int64_t{id} - first_id;
    if (i < 0 || i >= n) continue;
    logits[i] = kNone;
    any = true;
  }
  return any;
}

// Saturates where a tiny temperature takes it out of f32.
float log_sum_exp(const TilePartial& whole, float temperature) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double value =
      static_cast<double>(whole.max) / static_cast<double>(temperature) + std::log(whole.sum);
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

bool wants_distribution(std::uint32_t want) {
  return (want & (kStatSampled | kStatTop2 | kStatEntropy | kStatLogSumExp | kStatProbOf |
                  kStatTopList)) != 0;
}

}  // namespace

void blend(float* logits, const float* pair, std::uint32_t n, float guidance_scale) {
  const float factor = guidance_scale + 1.0f;
  for (std::uint32_t i = 0; i < n; ++i) logits[i] = pair[i] + factor * (logits[i] - pair[i]);
}

bool suppress(const StatsRequest& request, std::uint32_t first_id, std::uint32_t n, float* logits) {
  bool any = suppress_ids(request.suppress_both, first_id, n, logits);
  if (request.allow_all) return any;
  any |= suppress_ids({&request.mask_id, 1}, first_id, n, logits);
  for (std::uint32_t i = std::max(request.n_tokens, first_id); i < first_id + n; ++i) {
    logits[i - first_id] = kNone;
    any = true;
  }
  return any;
}

bool suppress_confidence(const StatsRequest& request, std::uint32_t first_id, std::uint32_t n,
                         float* logits) {
  return suppress_ids(request.suppress_confidence, first_id, n, logits);
}

bool has_no_confidence(const StatsRequest& request, std::int32_t id) {
  return std::find(request.suppress_confidence.begin(), request.suppress_confidence.end(), id) !=
         request.suppress_confidence.end();
}

double noised(const StatsRequest& request, std::uint32_t position, std::int32_t id, float logit) {
  const double u = dllm_philox_uniform(request.seed, request.step, position,
                                       static_cast<std::uint32_t>(id), DLLM_DRAW_CANDIDATE);
  return static_cast<double>(logit) / static_cast<double>(request.temperature) -
         std::log(-std::log(u));
}

// An id can only win where g = -ln(-ln u) > best - z, that is -ln u < e^(z - best). Since
// -ln u >= 1 - u, no id with 1 - u >= e^(z - best) can: kernels.rows.may_win draws and compares 64
// ids at a time in f32, and only the few that it leaves get two logarithms, in double. The slack
// covers its roundings: of l / T (two, on |z| <= |best| + 30 wherever it matters), of b, of the
// exponential and of u. So the winner is exactly that of the plain loop.
void draw_candidates(const Kernels& kernels, const StatsRequest& request, std::uint32_t position,
                     std::uint32_t first_id, const float* logits, std::uint32_t n, Draw& best) {
  constexpr std::uint32_t kBlock = 64;
  constexpr double kLogOfRange = 22.18070977791825;  // ln 2^32
  const DrawKey key{request.seed, request.step, position, DLLM_DRAW_CANDIDATE};
  const float inverse = 1.0f / request.temperature;
  float padded[kBlock];
  for (std::uint32_t begin = 0; begin < n; begin += kBlock) {
    const float* block = logits + begin;
    if (n - begin < kBlock) {
      std::fill(std::copy_n(block, n - begin, padded), padded + kBlock, kNone);
      block = padded;
    }
    const double slack = 1e-4 + 4e-7 * (std::abs(best.value) + 30);
    // Where f32 ends, NaN: nothing is sure.
    const float offset = std::abs(best.value) < 1e30
                             ? static_cast<float>(kLogOfRange + slack - best.value)
                             : std::numeric_limits<float>::quiet_NaN();
    std::uint64_t left = kernels.rows.may_win(key, first_id + begin, block, inverse, offset);
    for (; left != 0; left &= left - 1) {
      const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
      if (block[i] == kNone) continue;
      const auto id = static_cast<std::int32_t>(first_id + begin + i);
      const double value = noised(request, position, id, block[i]);
      if (value > best.value || (value == best.value && best.id < 0)) best = {value, id, block[i]};
    }
  }
}

TilePartial reduce_tile(const Kernels& kernels, const HeadRow& row, std::uint32_t first_id,
                        float* logits, std::uint32_t n, double best_elsewhere, float* probes) {
  const StatsRequest& request = *row.request;
  TilePartial out;
  Extent extent = kernels.rows.extent(logits, n);
  out.bad = extent.bad;
  if (suppress(request, first_id, n, logits)) extent = kernels.rows.extent(logits, n);
  if (out.bad) return out;
  if (extent.max != kNone) {
    out.argmax_logit = extent.max;
    out.argmax = static_cast<std::int32_t>(first_id + kernels.rows.index_of(logits, n, extent.max));
    if ((request.want & kStatSampled) != 0) {
      if (request.temperature > 0) {
        Draw best;
        best.value = std::isfinite(best_elsewhere)
                         ? best_elsewhere
                         : noised(request, row.position, out.argmax, extent.max);
        draw_candidates(kernels, request, row.position, first_id, logits, n, best);
        if (best.id >= 0) out.draw = best;
      } else {
        out.draw = {static_cast<double>(extent.max), out.argmax, extent.max};
      }
    }
  }
  if (!wants_distribution(request.want)) return out;
  if (suppress_confidence(request, first_id, n, logits)) extent = kernels.rows.extent(logits, n);
  for (std::size_t j = 0; j < request.prob_of.size(); ++j) {
    const std::int64_t i = std::int64_t{request.prob_of[j]} - first_id;
    if (i >= 0 && i < n) probes[j] = logits[i];
  }
  if (extent.max == kNone) return out;
  const ExpSums sums =
      kernels.rows.exp_sums(logits, n, extent.max, confidence_inverse_temperature(request));
  out.max = extent.max;
  out.second = extent.second;
  out.sum = sums.sum;
  out.weighted = sums.weighted;
  return out;
}

TilePartial merge_tiles(const TilePartial* tiles, std::uint32_t n_tiles,
                        float inverse_temperature) {
  TilePartial whole;
  for (std::uint32_t i = 0; i < n_tiles; ++i) {
    const TilePartial& tile = tiles[i];
    whole.bad |= tile.bad;
    if (tile.argmax_logit > whole.argmax_logit) {
      whole.argmax_logit = tile.argmax_logit;
      whole.argmax = tile.argmax;
    }
    if (tile.draw.value > whole.draw.value) whole.draw = tile.draw;
    whole.second = std::max({whole.second, tile.second, std::min(whole.max, tile.max)});
    whole.max = std::max(whole.max, tile.max);
  }
  if (whole.bad || whole.max == kNone) return whole;
  for (std::uint32_t i = 0; i < n_tiles; ++i) {
    if (tiles[i].max == kNone) continue;
    // sum e^d (d + shift) = weighted + shift * sum, all times e^shift.
    const double shift = (static_cast<double>(tiles[i].max) - whole.max) * inverse_temperature;
    const double factor = std::exp(shift);
    whole.sum += factor * tiles[i].sum;
    if (factor > 0) whole.weighted += factor * (tiles[i].weighted + shift * tiles[i].sum);
  }
  return whole;
}

double probability(const TilePartial& row, float logit, float inverse_temperature) {
  if (logit == kNone || row.sum <= 0) return 0;
  return std::exp((static_cast<double>(logit) - row.max) * inverse_temperature) / row.sum;
}

void write_row(const HeadRow& row, const TilePartial& whole, const float* probes,
               HeadStats& stats) {
  const StatsRequest& request = *row.request;
  const std::uint32_t r = row.row;
  const float inverse = confidence_inverse_temperature(request);
  const bool non_finite = whole.bad || whole.argmax < 0;
  stats.non_finite[r] = non_finite;
  if ((request.want & kStatArgmax) != 0) stats.argmax[r] = non_finite ? 0 : whole.argmax;
  const auto prob = [&](float logit) {
    return non_finite ? 0.0f : static_cast<float>(probability(whole, logit, inverse));
  };
  if ((request.want & kStatSampled) != 0) {
    stats.sampled[r] = non_finite ? 0 : whole.draw.id;
    const bool hidden = has_no_confidence(request, whole.draw.id);
    stats.sampled_prob[r] = hidden ? 0.0f : prob(whole.draw.logit);
  }
  if ((request.want & kStatTop2) != 0) {
    stats.top1_prob[r] = prob(whole.max);
    stats.top2_prob[r] = prob(whole.second);
  }
  const bool some = !non_finite && whole.sum > 0;
  if ((request.want & kStatEntropy) != 0)
    stats.entropy[r] =
        some ? static_cast<float>(std::max(0.0, std::log(whole.sum) - whole.weighted / whole.sum))
             : 0.0f;
  if ((request.want & kStatLogSumExp) != 0)
    stats.log_sum_exp[r] =
        some ? log_sum_exp(whole, inverse == 1 ? 1 : request.temperature) : kNone;
  if ((request.want & kStatProbOf) != 0)
    for (std::size_t j = 0; j < request.prob_of.size(); ++j)
      stats.prob_of[std::size_t{r} * stats.prob_of_stride + j] = prob(probes[j]);
}

}  // namespace dllm::cpu

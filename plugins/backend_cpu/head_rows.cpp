#include "head_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dllm_sdk/philox.h"

namespace dllm::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

void suppress_ids(std::span<const std::int32_t> ids, std::uint32_t first_id, std::uint32_t n,
                  float* logits) {
  for (const std::int32_t id : ids) {
    const std::int64_t i = std::int64_t{id} - first_id;
    if (i >= 0 && i < n) logits[i] = kNone;
  }
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

void suppress(const StatsRequest& request, std::uint32_t first_id, std::uint32_t n, float* logits) {
  suppress_ids(request.suppress_both, first_id, n, logits);
  if (request.allow_all) return;
  suppress_ids({&request.mask_id, 1}, first_id, n, logits);
  for (std::uint32_t i = std::max(request.n_tokens, first_id); i < first_id + n; ++i)
    logits[i - first_id] = kNone;
}

bool suppress_confidence(const StatsRequest& request, std::uint32_t first_id, std::uint32_t n,
                         float* logits) {
  const bool any = std::any_of(
      request.suppress_confidence.begin(), request.suppress_confidence.end(), [&](std::int32_t id) {
        return std::int64_t{id} >= first_id && std::int64_t{id} < std::int64_t{first_id} + n;
      });
  if (any) suppress_ids(request.suppress_confidence, first_id, n, logits);
  return any;
}

bool has_no_confidence(const StatsRequest& request, std::int32_t id) {
  return std::find(request.suppress_confidence.begin(), request.suppress_confidence.end(), id) !=
         request.suppress_confidence.end();
}

float confidence_inverse_temperature(const StatsRequest& request) {
  if (request.domain == Domain::raw || request.temperature <= 0) return 1;
  return static_cast<float>(std::min(1.0 / static_cast<double>(request.temperature),
                                     static_cast<double>(std::numeric_limits<float>::max())));
}

double noised(const StatsRequest& request, std::uint32_t position, std::int32_t id, float logit) {
  const double u = dllm_philox_uniform(request.seed, request.step, position,
                                       static_cast<std::uint32_t>(id), DLLM_DRAW_CANDIDATE);
  return static_cast<double>(logit) / static_cast<double>(request.temperature) -
         std::log(-std::log(u));
}

// An id can only win where g = -ln(-ln u) > best - z, that is -ln u < e^(z - best). Since
// -ln u >= 1 - u, no id with 1 - u >= e^(z - best) can: two logarithms are spared for nearly all
// ids, and the winner is exactly that of the plain loop. `best` only rises, so the value at the
// start of a block is on the safe side; the slack covers the f32 exponential and the rounding of z
// - best.
void draw_candidates(const Kernels& kernels, const StatsRequest& request, std::uint32_t position,
                     std::uint32_t first_id, const float* logits, std::uint32_t n, Draw& best) {
  constexpr std::uint32_t kBlock = 64;
  constexpr float kSmallestRest = 1.1e-10f;  // below any 1 - u = (k + 0.5) / 2^32
  const double temperature = request.temperature;
  float limits[kBlock];
  for (std::uint32_t begin = 0; begin < n; begin += kBlock) {
    const std::uint32_t count = std::min(kBlock, n - begin);
    const double slack = 1e-4 + std::abs(best.id < 0 ? 0.0 : best.value) * 4e-16;
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      const float logit = i < count ? logits[begin + i] : kNone;
      const double lead =
          best.id < 0 ? 80.0 : static_cast<double>(logit) / temperature - best.value + slack;
      limits[i] = logit == kNone ? -1000.0f : static_cast<float>(std::clamp(lead, -1000.0, 80.0));
    }
    kernels.rows.exponentials(limits, kBlock);
    for (std::uint32_t i = 0; i < count; i += 4) {
      const float* limit = limits + i;
      if (std::max({limit[0], limit[1], limit[2], limit[3]}) < kSmallestRest) continue;
      std::uint32_t words[4];
      dllm_philox4x32(request.seed, request.step, position, (first_id + begin + i) / 4,
                      DLLM_DRAW_CANDIDATE, words);
      for (std::uint32_t j = 0; j < 4 && i + j < count; ++j) {
        const double u = (words[j] + 0.5) * (1.0 / 4294967296.0);
        if (1.0 - u >= static_cast<double>(limit[j])) continue;
        const float logit = logits[begin + i + j];
        if (logit == kNone) continue;
        const double value = static_cast<double>(logit) / temperature - std::log(-std::log(u));
        if (value > best.value)
          best = {value, static_cast<std::int32_t>(first_id + begin + i + j), logit};
      }
    }
  }
}

std::uint32_t index_of(const float* logits, std::uint32_t n, float value) {
  std::uint32_t i = 0;
  while (i < n && logits[i] != value) ++i;
  return i;
}

TilePartial reduce_tile(const Kernels& kernels, const HeadRow& row, std::uint32_t first_id,
                        float* logits, std::uint32_t n, float* probes) {
  const StatsRequest& request = *row.request;
  TilePartial out;
  out.bad = kernels.rows.extent(logits, n).bad;
  suppress(request, first_id, n, logits);
  if (out.bad) return out;
  float max = kernels.rows.extent(logits, n).max;
  if (max != kNone) {
    const std::uint32_t at = index_of(logits, n, max);
    out.argmax_logit = max;
    out.argmax = static_cast<std::int32_t>(first_id + at);
    if ((request.want & kStatSampled) != 0) {
      if (request.temperature > 0) {
        draw_candidates(kernels, request, row.position, first_id, logits, n, out.draw);
      } else {
        out.draw = {static_cast<double>(max), out.argmax, max};
      }
    }
  }
  if (!wants_distribution(request.want)) return out;
  if (suppress_confidence(request, first_id, n, logits)) max = kernels.rows.extent(logits, n).max;
  for (std::size_t j = 0; j < request.prob_of.size(); ++j) {
    const std::int64_t i = std::int64_t{request.prob_of[j]} - first_id;
    if (i >= 0 && i < n) probes[j] = logits[i];
  }
  if (max == kNone) return out;
  const ExpSums sums =
      kernels.rows.exp_sums(logits, n, max, confidence_inverse_temperature(request));
  out.max = max;
  out.sum = sums.sum;
  out.weighted = sums.weighted;
  if ((request.want & kStatTop2) != 0) {
    logits[index_of(logits, n, max)] = kNone;
    out.second = kernels.rows.extent(logits, n).max;
  }
  return out;
}

void merge(TilePartial& into, const TilePartial& next, float inverse_temperature) {
  into.bad |= next.bad;
  if (next.argmax_logit > into.argmax_logit) {
    into.argmax_logit = next.argmax_logit;
    into.argmax = next.argmax;
  }
  if (next.draw.value > into.draw.value) into.draw = next.draw;
  if (next.max == kNone) return;
  if (into.max == kNone) {
    into.max = next.max;
    into.second = next.second;
    into.sum = next.sum;
    into.weighted = next.weighted;
    return;
  }
  const float max = std::max(into.max, next.max);
  into.second = std::max({into.second, next.second, std::min(into.max, next.max)});
  // sum e^d (d + shift) = weighted + shift * sum, all times e^shift.
  const auto shifted = [&](const TilePartial& part, double& sum, double& weighted) {
    const double shift = (static_cast<double>(part.max) - max) * inverse_temperature;
    const double factor = std::exp(shift);
    sum += factor * part.sum;
    if (factor > 0) weighted += factor * (part.weighted + shift * part.sum);
  };
  double sum = 0;
  double weighted = 0;
  shifted(into, sum, weighted);
  shifted(next, sum, weighted);
  into.max = max;
  into.sum = sum;
  into.weighted = weighted;
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

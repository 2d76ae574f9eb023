// The statistics of one row, straight from the definitions in dllm/head_stats.hpp, in double
// precision and without any cleverness: what every backend's head_stats is held to.
//
//   RowStats want = oracle_row_stats(logits, request, position);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "dllm/head_stats.hpp"
#include "dllm_sdk/philox.h"

namespace dllm::test {

struct RowStats {
  bool non_finite = false;  ///< the rest means nothing
  std::int32_t sampled = -1;
  double sampled_prob = 0;
  std::int32_t argmax = -1;
  double top1_prob = 0;
  double top2_prob = 0;
  double entropy = 0;
  double log_sum_exp = 0;
  std::vector<double> prob_of;
  std::vector<std::int32_t> top_ids;
  std::vector<double> top_probs;
  /// Noised value of the sampled id minus the next one: how clear the draw is.
  double sampled_lead = 0;
};

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// LLaDA generate.py: u + (w + 1)(c - u).
inline std::vector<double> oracle_guided(const std::vector<double>& conditional,
                                         const std::vector<double>& unconditional, double scale) {
  std::vector<double> out(conditional.size());
  for (std::size_t v = 0; v < out.size(); ++v) {
    out[v] = unconditional[v] + (scale + 1) * (conditional[v] - unconditional[v]);
  }
  return out;
}

/// ln sum exp; -inf entries count nothing.
inline double oracle_log_sum_exp(const std::vector<double>& values) {
  const double peak = *std::max_element(values.begin(), values.end());
  if (peak == kMinusInfinity) return kMinusInfinity;
  double sum = 0;
  for (const double value : values) sum += std::exp(value - peak);
  return peak + std::log(sum);
}

/// Divides by the sum rather than subtracting a log: at tiny temperatures ln 6 vanishes beside
/// 1e38.
inline std::vector<double> oracle_softmax(const std::vector<double>& values) {
  const double peak = *std::max_element(values.begin(), values.end());
  std::vector<double> out(values.size(), 0.0);
  if (peak == kMinusInfinity) return out;
  double sum = 0;
  for (std::size_t v = 0; v < out.size(); ++v) sum += out[v] = std::exp(values[v] - peak);
  for (double& p : out) p /= sum;
  return out;
}

/// Ids by falling value, equal values by rising id.
inline std::vector<std::int32_t> oracle_order(const std::vector<double>& values) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  return order;
}

inline void oracle_suppress(std::vector<double>& values, std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) values[static_cast<std::size_t>(id)] = kMinusInfinity;
}

/// z over the kept ids, -inf elsewhere: temperature, then top_p, then top_k.
inline std::vector<double> oracle_filtered(const std::vector<double>& logits,
                                           const StatsRequest& request) {
  std::vector<double> z = logits;
  if (request.temperature > 0) {
    for (double& value : z) value /= static_cast<double>(request.temperature);
  }
  if (request.top_p < 1) {
    const std::vector<double> p = oracle_softmax(z);
    double mass = 0;
    for (const std::int32_t id : oracle_order(z)) {
      const bool keep = mass <= static_cast<double>(request.top_p);
      mass += p[static_cast<std::size_t>(id)];
      if (!keep) z[static_cast<std::size_t>(id)] = kMinusInfinity;
    }
  }
  if (request.top_k > 0 && request.top_k < z.size()) {
    std::vector<double> sorted = z;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double kth = sorted[request.top_k - 1];
    for (double& value : z) {
      if (value < kth) value = kMinusInfinity;
    }
  }
  return z;
}

/// `logits` [n_vocab] after guidance; `position` is the row's, for the draw.
inline RowStats oracle_row_stats(std::vector<double> logits, const StatsRequest& request,
                                 std::uint32_t position) {
  RowStats out;
  const bool bad = std::any_of(logits.begin(), logits.end(), [](double l) {
    return std::isnan(l) || l == std::numeric_limits<double>::infinity();
  });
  oracle_suppress(logits, request.suppress_both);
  if (!request.allow_all) {
    if (request.mask_id >= 0) logits[static_cast<std::size_t>(request.mask_id)] = kMinusInfinity;
    for (std::size_t v = request.n_tokens; v < logits.size(); ++v) logits[v] = kMinusInfinity;
  }
  out.non_finite = bad || oracle_log_sum_exp(logits) == kMinusInfinity;
  if (out.non_finite) return out;

  out.argmax = oracle_order(logits).front();
  const std::vector<double> kept = oracle_filtered(logits, request);
  std::vector<double> noised = request.temperature > 0 ? kept : logits;
  if (request.temperature > 0) {
    for (std::size_t v = 0; v < noised.size(); ++v) {
      const double u = dllm_philox_uniform(request.seed, request.step, position,
                                           static_cast<std::uint32_t>(v), DLLM_DRAW_CANDIDATE);
      noised[v] -= std::log(-std::log(u));
    }
  }
  const std::vector<std::int32_t> by_noise = oracle_order(noised);
  out.sampled = by_noise.front();
  out.sampled_lead = by_noise.size() < 2 ? std::numeric_limits<double>::infinity()
                                         : noised[static_cast<std::size_t>(by_noise[0])] -
                                               noised[static_cast<std::size_t>(by_noise[1])];

  std::vector<double> of_distribution = request.domain == Domain::filtered ? kept : logits;
  oracle_suppress(of_distribution, request.suppress_confidence);
  out.log_sum_exp = oracle_log_sum_exp(of_distribution);
  const std::vector<double> distribution = oracle_softmax(of_distribution);
  const auto prob = [&](std::int32_t id) { return distribution[static_cast<std::size_t>(id)]; };
  out.sampled_prob = prob(out.sampled);
  const std::vector<std::int32_t> order = oracle_order(distribution);
  out.top1_prob = prob(order[0]);
  out.top2_prob = order.size() > 1 ? prob(order[1]) : 0.0;
  for (const double p : distribution) {
    if (p > 0) out.entropy -= p * std::log(p);
  }
  for (const std::int32_t id : request.prob_of) out.prob_of.push_back(prob(id));
  for (std::uint32_t j = 0; j < std::min<std::size_t>(request.top_list, order.size()); ++j) {
    out.top_ids.push_back(order[j]);
    out.top_probs.push_back(prob(order[j]));
  }
  return out;
}

}  // namespace dllm::test

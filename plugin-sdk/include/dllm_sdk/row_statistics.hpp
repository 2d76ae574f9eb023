// What a backend answers about a row, straight from the definitions in sampler_abi.h and in double
// precision, for whoever plays a sampler without a model: tests, `dllm check-plugin`, `dllm
// replay`.
//
//   auto logits_of = [](std::uint32_t position) { return LogitRow{{7, 2.0}, {9, 1.0}}; };
//   Answers answers = answer_plan(plan, facts, seed, canvas.step, logits_of);
//   table.apply(run, &canvas, &answers.view(), &edits, &error);
//
// Rows are sparse: tokens that are not listed have the logit -inf, so a vocabulary of any size
// costs nothing. Header only, C++17, standard library only. Thread rule: values, any thread.
#ifndef DLLM_SDK_ROW_STATISTICS_HPP
#define DLLM_SDK_ROW_STATISTICS_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "dllm_sdk/philox.h"
#include "dllm_sdk/raw_logits_abi.h"
#include "dllm_sdk/sampler_abi.h"

namespace dllm::sdk {

struct Logit {
  std::int32_t id;
  double value;
};
/// The finite logits of one row after guidance; any order, each id once.
using LogitRow = std::vector<Logit>;

/// No token with a finite logit: sampled and argmax are -1, log_sum_exp is -inf, the rest 0.
struct RowStatistics {
  std::int32_t sampled = -1;
  double sampled_prob = 0;
  std::int32_t argmax = -1;
  double top1_prob = 0;
  double top2_prob = 0;
  double entropy = 0;
  double log_sum_exp = -std::numeric_limits<double>::infinity();
  std::vector<double> prob_of;        ///< as many as plan.prob_of
  std::vector<std::int32_t> top_ids;  ///< at most plan.n_top_list
  std::vector<double> top_probs;
};

namespace detail {

inline bool lists(const std::int32_t* ids, std::uint32_t count, std::int32_t id) {
  return std::find(ids, ids + count, id) != ids + count;
}

// Largest first; equal ones by id.
inline void sort_by_value(LogitRow& row) {
  std::sort(row.begin(), row.end(), [](const Logit& a, const Logit& b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
  });
}

// exp(value - largest) for each, and their sum; `row` is sorted and not empty.
inline double exponentials(const LogitRow& row, std::vector<double>& out) {
  double sum = 0;
  out.clear();
  for (const Logit& logit : row) {
    out.push_back(std::exp(logit.value - row.front().value));
    sum += out.back();
  }
  return sum;
}

// `row` tempered and sorted: what top_p, then top_k leave of it.
inline void keep_filtered(LogitRow& row, const dllm_plan& plan) {
  if (plan.top_p < 1) {
    std::vector<double> weights;
    const double sum = exponentials(row, weights);
    double mass = 0;
    std::size_t kept = 0;
    while (kept < row.size() && mass <= static_cast<double>(plan.top_p))
      mass += weights[kept++] / sum;
    row.resize(kept);
  }
  if (plan.top_k > 0 && plan.top_k < row.size()) {
    const double smallest = row[plan.top_k - 1].value;
    while (row.back().value < smallest) row.pop_back();
  }
}

inline std::int32_t largest_noised(const LogitRow& row, std::uint64_t seed, std::uint32_t step,
                                   std::uint32_t position) {
  std::int32_t best = -1;
  double best_value = 0;
  for (const Logit& logit : row) {
    const double u = dllm_philox_uniform(seed, step, position, static_cast<std::uint32_t>(logit.id),
                                         DLLM_DRAW_CANDIDATE);
    const double value = logit.value - std::log(-std::log(u));
    if (best < 0 || value > best_value || (value == best_value && logit.id < best)) {
      best = logit.id;
      best_value = value;
    }
  }
  return best;
}

}  // namespace detail

/// The statistics `plan` defines of a row of logits; all of them, wanted or not.
inline RowStatistics row_statistics(LogitRow row, const dllm_plan& plan,
                                    const dllm_model_facts& facts, std::uint64_t seed,
                                    std::uint32_t step, std::uint32_t position) {
  const bool allow_all = (plan.flags & DLLM_PLAN_ALLOW_ALL) != 0;
  const auto suppressed = [&](const Logit& logit) {
    const bool tail = static_cast<std::uint32_t>(logit.id) >= facts.n_tokens;
    return detail::lists(plan.suppress_both, plan.n_suppress_both, logit.id) ||
           (!allow_all && (logit.id == facts.mask_id || tail));
  };
  row.erase(std::remove_if(row.begin(), row.end(), suppressed), row.end());
  RowStatistics out;
  out.prob_of.assign(plan.n_prob_of, 0.0);
  if (row.empty()) return out;

  detail::sort_by_value(row);
  out.argmax = row.front().id;
  LogitRow kept = row;
  if (plan.temperature > 0) {
    for (Logit& logit : kept) logit.value /= static_cast<double>(plan.temperature);
  }
  detail::keep_filtered(kept, plan);
  out.sampled =
      plan.temperature > 0 ? detail::largest_noised(kept, seed, step, position) : out.argmax;

  LogitRow& of_domain = plan.domain == DLLM_DOMAIN_FILTERED ? kept : row;
  const auto without_probability = [&](const Logit& logit) {
    return detail::lists(plan.suppress_confidence, plan.n_suppress_confidence, logit.id);
  };
  of_domain.erase(std::remove_if(of_domain.begin(), of_domain.end(), without_probability),
                  of_domain.end());
  if (of_domain.empty()) return out;
  std::vector<double> probabilities;
  const double sum = detail::exponentials(of_domain, probabilities);
  out.log_sum_exp = of_domain.front().value + std::log(sum);
  for (std::size_t i = 0; i < of_domain.size(); ++i) {
    const double p = probabilities[i] / sum;
    const std::int32_t id = of_domain[i].id;
    if (p > 0) out.entropy -= p * std::log(p);
    if (id == out.sampled) out.sampled_prob = p;
    if (i == 0) out.top1_prob = p;
    if (i == 1) out.top2_prob = p;
    if (i < plan.n_top_list) {
      out.top_ids.push_back(id);
      out.top_probs.push_back(p);
    }
    for (std::uint32_t j = 0; j < plan.n_prob_of; ++j) {
      if (plan.prob_of[j] == id) out.prob_of[j] = p;
    }
  }
  return out;
}

/// Whole logits as a host gives them to a sampler that takes them: tokens not listed have -inf.
struct RawRows {
  template <typename LogitsOf>
  RawRows(const dllm_plan& plan, std::uint32_t vocabulary, LogitsOf&& logits_of)
      : positions(plan.positions, plan.positions + plan.n_positions),
        values(positions.size() * vocabulary, -std::numeric_limits<float>::infinity()),
        n_vocab(vocabulary) {
    for (std::size_t row = 0; row < positions.size(); ++row) {
      for (const Logit& logit : logits_of(positions[row])) {
        values[row * n_vocab + static_cast<std::size_t>(logit.id)] =
            static_cast<float>(logit.value);
      }
    }
  }

  /// Borrows this object.
  dllm_raw_logits view() const {
    dllm_raw_logits logits{};
    logits.struct_size = sizeof logits;
    logits.n_rows = static_cast<std::uint32_t>(positions.size());
    logits.n_vocab = n_vocab;
    logits.positions = positions.data();
    logits.values = values.data();
    return logits;
  }

  std::vector<std::uint32_t> positions;
  std::vector<float> values;  ///< [row * n_vocab + id]
  std::uint32_t n_vocab;
};

/// The extension of a sampler that takes whole logits, or null.
inline const dllm_raw_logits_v1* raw_logits_of(const dllm_sampler_v1& table) {
  if (table.get_extension == nullptr) return nullptr;
  return static_cast<const dllm_raw_logits_v1*>(table.get_extension(DLLM_EXTENSION_RAW_LOGITS));
}

/// The arrays of a dllm_stats. They are public: a test may damage them.
struct Answers {
  /// `extra` columns more than asked for in the tables of several columns, as a host that serves
  /// several sequences at once has.
  explicit Answers(const dllm_plan& plan, std::uint32_t extra = 0)
      : want(plan.want),
        prob_of_stride(plan.n_prob_of + extra),
        top_stride(plan.n_top_list + extra),
        positions(plan.positions, plan.positions + plan.n_positions),
        sampled(plan.n_positions, -1),
        argmax(plan.n_positions, -1),
        sampled_prob(plan.n_positions),
        top1_prob(plan.n_positions),
        top2_prob(plan.n_positions),
        entropy(plan.n_positions),
        log_sum_exp(plan.n_positions),
        prob_of(std::size_t{plan.n_positions} * prob_of_stride),
        top_ids(std::size_t{plan.n_positions} * top_stride, -1),
        top_probs(std::size_t{plan.n_positions} * top_stride) {}

  void set(std::uint32_t row, const RowStatistics& from) {
    sampled[row] = from.sampled;
    argmax[row] = from.argmax;
    sampled_prob[row] = static_cast<float>(from.sampled_prob);
    top1_prob[row] = static_cast<float>(from.top1_prob);
    top2_prob[row] = static_cast<float>(from.top2_prob);
    entropy[row] = static_cast<float>(from.entropy);
    log_sum_exp[row] = static_cast<float>(from.log_sum_exp);
    for (std::size_t j = 0; j < from.prob_of.size(); ++j) {
      prob_of[std::size_t{row} * prob_of_stride + j] = static_cast<float>(from.prob_of[j]);
    }
    for (std::size_t j = 0; j < from.top_ids.size(); ++j) {
      top_ids[std::size_t{row} * top_stride + j] = from.top_ids[j];
      top_probs[std::size_t{row} * top_stride + j] = static_cast<float>(from.top_probs[j]);
    }
  }

  /// Borrows this object. What was not wanted is null.
  dllm_stats view() const {
    const auto wanted = [this](std::uint32_t bit, const auto& array) {
      return (want & bit) != 0 && !positions.empty() ? array.data() : nullptr;
    };
    dllm_stats stats{};
    stats.struct_size = sizeof stats;
    stats.n_rows = static_cast<std::uint32_t>(positions.size());
    stats.positions = positions.data();
    stats.sampled = wanted(DLLM_STAT_SAMPLED, sampled);
    stats.sampled_prob = wanted(DLLM_STAT_SAMPLED, sampled_prob);
    stats.argmax = wanted(DLLM_STAT_ARGMAX, argmax);
    stats.top1_prob = wanted(DLLM_STAT_TOP2, top1_prob);
    stats.top2_prob = wanted(DLLM_STAT_TOP2, top2_prob);
    stats.entropy = wanted(DLLM_STAT_ENTROPY, entropy);
    stats.log_sum_exp = wanted(DLLM_STAT_LOG_SUM_EXP, log_sum_exp);
    stats.prob_of = wanted(DLLM_STAT_PROB_OF, prob_of);
    stats.top_ids = wanted(DLLM_STAT_TOP_LIST, top_ids);
    stats.top_probs = wanted(DLLM_STAT_TOP_LIST, top_probs);
    stats.n_prob_of = prob_of_stride;
    stats.n_top_list = top_stride;
    return stats;
  }

  std::uint32_t want;
  std::uint32_t prob_of_stride;
  std::uint32_t top_stride;
  std::vector<std::uint32_t> positions;
  std::vector<std::int32_t> sampled, argmax;
  std::vector<float> sampled_prob, top1_prob, top2_prob, entropy, log_sum_exp;
  std::vector<float> prob_of;         ///< [row * prob_of_stride + j]
  std::vector<std::int32_t> top_ids;  ///< [row * top_stride + j]
  std::vector<float> top_probs;       ///< likewise
};

/// Every row of `plan`; `logits_of(position)` gives its LogitRow.
template <typename LogitsOf>
Answers answer_plan(const dllm_plan& plan, const dllm_model_facts& facts, std::uint64_t seed,
                    std::uint32_t step, LogitsOf&& logits_of, std::uint32_t extra = 0) {
  Answers answers(plan, extra);
  for (std::uint32_t row = 0; row < plan.n_positions; ++row) {
    const std::uint32_t position = plan.positions[row];
    answers.set(row, row_statistics(logits_of(position), plan, facts, seed, step, position));
  }
  return answers;
}

}  // namespace dllm::sdk

#endif

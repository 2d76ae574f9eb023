#include "head_filter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dllm::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr std::uint64_t kStoredBytes = 64u << 20;

bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Moves the k first of n candidates to the front, in order.
void sort_first(Candidate* candidates, std::uint32_t n, std::uint32_t k) {
  if (k < n) std::nth_element(candidates, candidates + k, candidates + n, before);
  std::sort(candidates, candidates + k, before);
}

std::uint32_t list_finite(const float* logits, std::uint32_t n_vocab, Candidate* out) {
  std::uint32_t n = 0;
  for (std::uint32_t v = 0; v < n_vocab; ++v)
    if (logits[v] != kNone) out[n++] = {logits[v], static_cast<std::int32_t>(v)};
  return n;
}

double tempered(const StatsRequest& request, float logit) {
  return request.temperature > 0
             ? static_cast<double>(logit) / static_cast<double>(request.temperature)
             : static_cast<double>(logit);
}

// Shortest prefix whose softmax mass exceeds top_p. Most of the mass is usually in a few ids, so
// ever longer prefixes are sorted, not the whole list. `candidates` come in id order, which fixes
// the order of the sum.
std::uint32_t keep_top_p(const StatsRequest& request, Candidate* candidates, std::uint32_t n,
                         float max) {
  const double peak = tempered(request, max);
  double sum = 0;
  for (std::uint32_t i = 0; i < n; ++i)
    sum += std::exp(tempered(request, candidates[i].logit) - peak);
  for (std::uint32_t sorted = std::min(n, 64u);; sorted = std::min(n, sorted * 8)) {
    sort_first(candidates, n, sorted);
    double mass = 0;
    for (std::uint32_t i = 0; i < sorted; ++i) {
      mass += std::exp(tempered(request, candidates[i].logit) - peak) / sum;
      if (mass > static_cast<double>(request.top_p)) return i + 1;
    }
    if (sorted == n) return n;
  }
}

// Keeps those not below the k-th largest.
std::uint32_t keep_top_k(std::uint32_t k, Candidate* candidates, std::uint32_t n) {
  if (k == 0 || k >= n) return n;
  std::nth_element(candidates, candidates + (k - 1), candidates + n, before);
  const float kth = candidates[k - 1].logit;
  Candidate* end = std::partition(candidates + k, candidates + n,
                                  [&](const Candidate& c) { return c.logit >= kth; });
  return static_cast<std::uint32_t>(end - candidates);
}

std::uint32_t filter(const StatsRequest& request, const float* logits, std::uint32_t n_vocab,
                     float max, Candidate* kept) {
  std::uint32_t n = list_finite(logits, n_vocab, kept);
  if (request.top_p < 1) n = keep_top_p(request, kept, n, max);
  return keep_top_k(request.top_k, kept, n);
}

Draw draw_of(const Kernels& kernels, const HeadRow& row, const float* logits, std::uint32_t n_vocab,
             std::int32_t argmax, const Candidate* kept, std::uint32_t n_kept) {
  const StatsRequest& request = *row.request;
  Draw best;
  if (!kept) {
    best.value = noised(request, row.position, argmax, logits[argmax]);
    draw_candidates(kernels, request, row.position, 0, logits, n_vocab, best);
    return best;
  }
  for (std::uint32_t i = 0; i < n_kept; ++i) {
    const Candidate& c = kept[i];
    const double value = noised(request, row.position, c.id, c.logit);
    if (value > best.value || (value == best.value && c.id < best.id))
      best = {value, c.id, c.logit};
  }
  return best;
}

// Leaves only the kept ids in `logits`.
void keep_only(float* logits, std::uint32_t n_vocab, const Candidate* kept, std::uint32_t n_kept) {
  std::fill_n(logits, n_vocab, kNone);
  for (std::uint32_t i = 0; i < n_kept; ++i) logits[kept[i].id] = kept[i].logit;
}

// The k most probable ids; where fewer have a probability above 0, the lowest other ids follow with
// 0. Places beyond the vocabulary get id -1.
void write_top_list(const HeadRow& row, const TilePartial& whole, const float* logits,
                    std::uint32_t n_vocab, Candidate* work, HeadStats& stats) {
  const std::uint32_t k = row.request->top_list;
  const float inverse = confidence_inverse_temperature(*row.request);
  std::int32_t* ids = stats.top_ids.data() + std::size_t{row.row} * stats.top_stride;
  float* probs = stats.top_probs.data() + std::size_t{row.row} * stats.top_stride;
  const std::uint32_t n = list_finite(logits, n_vocab, work);
  const std::uint32_t sorted = std::min(k, n);
  sort_first(work, n, sorted);
  std::uint32_t listed = 0;
  for (; listed < sorted; ++listed) {
    const double p = probability(whole, work[listed].logit, inverse);
    if (p <= 0) break;
    ids[listed] = work[listed].id;
    probs[listed] = static_cast<float>(p);
  }
  std::int32_t other = 0;
  for (std::uint32_t j = listed; j < k; ++j) {
    while (std::find(ids, ids + listed, other) != ids + listed) ++other;
    ids[j] = static_cast<std::uint32_t>(other) < n_vocab ? other++ : -1;
    probs[j] = 0;
  }
}

}  // namespace

bool needs_whole_row(const StatsRequest& request, std::uint32_t n_vocab) {
  return (request.want & kStatTopList) != 0 || filters_matter(request, n_vocab);
}

std::uint32_t stored_rows(std::uint32_t n_vocab) {
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>(kStoredBytes / (std::uint64_t{n_vocab} * sizeof(float)), 2));
}

std::uint64_t stored_bytes(std::uint32_t n_rows, std::uint32_t n_vocab) {
  if (n_vocab == 0) return 0;
  const std::uint64_t rows = std::min<std::uint64_t>(stored_rows(n_vocab), 2ull * n_rows);
  return rows * n_vocab * sizeof(float);
}

void whole_row_stats(const Kernels& kernels, const HeadRow& row, float* logits,
                     std::uint32_t n_vocab, Candidate* work, HeadStats& stats) {
  const StatsRequest& request = *row.request;
  TilePartial whole;
  Extent extent = kernels.rows.extent(logits, n_vocab);
  whole.bad = extent.bad;
  if (suppress(request, 0, n_vocab, logits)) extent = kernels.rows.extent(logits, n_vocab);
  const float max = extent.max;
  if (whole.bad || max == kNone) {
    write_row(row, whole, logits, stats);
    return;
  }
  whole.argmax = static_cast<std::int32_t>(kernels.rows.index_of(logits, n_vocab, max));
  whole.argmax_logit = max;

  const bool filtered = has_filter(request, n_vocab);
  const std::uint32_t n_kept = filtered ? filter(request, logits, n_vocab, max, work) : 0;
  whole.draw = request.temperature > 0 ? draw_of(kernels, row, logits, n_vocab, whole.argmax,
                                                 filtered ? work : nullptr, n_kept)
                                       : Draw{static_cast<double>(max), whole.argmax, max};
  if (filtered && request.domain == Domain::filtered) keep_only(logits, n_vocab, work, n_kept);
  suppress_confidence(request, 0, n_vocab, logits);

  float probes[64];
  for (std::size_t j = 0; j < request.prob_of.size(); ++j) {
    const auto id = static_cast<std::uint32_t>(request.prob_of[j]);
    probes[j] = id < n_vocab ? logits[id] : kNone;
  }
  extent = kernels.rows.extent(logits, n_vocab);
  whole.max = extent.max;
  whole.second = extent.second;
  if (whole.max != kNone) {
    const ExpSums sums =
        kernels.rows.exp_sums(logits, n_vocab, whole.max, confidence_inverse_temperature(request));
    whole.sum = sums.sum;
    whole.weighted = sums.weighted;
  }
  write_row(row, whole, probes, stats);
  if ((request.want & kStatTopList) != 0) write_top_list(row, whole, logits, n_vocab, work, stats);
}

}  // namespace dllm::cpu

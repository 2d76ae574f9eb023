// What can be asked about a row of logits without ever storing it: requests and answers of
// Backend::head_stats, the same figures samplers plan with (dllm_sdk/sampler_abi.h).
//
// Definitions, for one row with logits l over the vocabulary (after guidance):
//   guidance    l = u + (w + 1)(c - u), c the row, u its pair, w guidance_scale (LLaDA generate.py)
//   suppressed  ids in suppress_both, the mask id and the vocabulary tail (id >= n_tokens) have
//               l = -inf everywhere; `allow_all` lifts the last two
//   tempered    z = l / T where T > 0, else z = l
//   filtered    keep = all ids; where top_p < 1: sort by z (ties: lower id first), keep the
//               shortest prefix whose softmax mass exceeds top_p (the token that crosses stays; at
//               least one); then where top_k > 0: of those keep z >= k-th largest (ties stay).
//               Dream's order: temperature, top_p, top_k
//   sampled     T = 0: argmax l. T > 0: argmax over kept ids of z + g, g = -ln(-ln u),
//               u = philox_uniform(seed, step, position, id, candidate). Ties: lowest id
//   D           domain raw: softmax of l (no T, no filter) without the ids in suppress_confidence;
//               domain filtered: softmax of z over kept ids, without those in suppress_confidence.
//               A suppressed id has probability 0
//   sampled_prob  D(sampled)
//   top1_prob, top2_prob  the two largest D (0 where there is no second)
//   entropy       -sum D ln D (nats)
//   log_sum_exp   ln sum exp of what D is the softmax of
//   prob_of[j]    D(ids[j])
//   top list      the k largest D with ids (ties: lower id first)
//   non_finite    a logit of the row is NaN or +inf, or all are -inf: the others mean nothing
//
//   HeadStats stats;
//   stats.reserve(160, 0, 0);
//   backend.head_stats(hidden, *norm, eps, *output, requests, stats);
//   stats.entropy[request.first_row]                          // of the request's first position
//
// Thread rule: values and pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "dllm/error.hpp"

namespace dllm {

/// Bits of StatsRequest::want; values equal DLLM_STAT_* of the SDK.
enum StatBits : std::uint32_t {
  kStatSampled = 1u << 0,  ///< sampled, sampled_prob
  kStatArgmax = 1u << 1,   ///< argmax of l
  kStatTop2 = 1u << 2,     ///< top1_prob, top2_prob
  kStatEntropy = 1u << 3,
  kStatLogSumExp = 1u << 4,
  kStatProbOf = 1u << 5,
  kStatTopList = 1u << 6
};

enum class Domain : std::uint8_t { raw = 0, filtered = 1 };

/// Statistics for rows [first_row, first_row + positions.size()) of `hidden`: one sequence's rows.
/// Spans are borrowed for the call.
struct StatsRequest {
  std::uint32_t first_row = 0;
  std::span<const std::uint32_t> positions;  ///< canvas position of each row, for the draw
  std::uint32_t want = 0;                    ///< StatBits
  Domain domain = Domain::raw;
  float temperature = 0;
  float top_p = 1;
  std::uint32_t top_k = 0;
  std::span<const std::int32_t> suppress_both;
  std::span<const std::int32_t> suppress_confidence;
  std::span<const std::int32_t> prob_of;  ///< ids, the same for every row
  std::uint32_t top_list = 0;             ///< length of the top list
  bool allow_all = false;                 ///< do not suppress mask id and vocabulary tail
  std::int32_t mask_id = -1;
  std::uint32_t n_tokens = 0;  ///< ids at or above have no token
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  bool guided = false;
  std::uint32_t guidance_first_row = 0;  ///< rows of the pair, same count and order
  float guidance_scale = 0;
};

/// The filters leave out an id at all.
inline bool has_filter(const StatsRequest& request, std::uint32_t n_vocab) {
  return request.top_p < 1 || (request.top_k > 0 && request.top_k < n_vocab);
}

/// An answer asked for depends on which ids the filters leave out (the top list aside).
inline bool filters_matter(const StatsRequest& request, std::uint32_t n_vocab) {
  const bool draw = (request.want & kStatSampled) != 0 && request.temperature > 0;
  return has_filter(request, n_vocab) && (draw || request.domain == Domain::filtered);
}

/// 1/T of the softmax that is D; finite for every T.
inline float confidence_inverse_temperature(const StatsRequest& request) {
  if (request.domain == Domain::raw || request.temperature <= 0) return 1;
  return static_cast<float>(std::min(1.0 / static_cast<double>(request.temperature),
                                     static_cast<double>(std::numeric_limits<float>::max())));
}

/// Answers, indexed by row of `hidden` (conditional rows only). Sized by reserve().
struct HeadStats {
  std::vector<std::int32_t> sampled;
  std::vector<float> sampled_prob;
  std::vector<std::int32_t> argmax;
  std::vector<float> top1_prob;
  std::vector<float> top2_prob;
  std::vector<float> entropy;
  std::vector<float> log_sum_exp;
  std::vector<std::uint8_t> non_finite;
  std::vector<float> prob_of;         ///< [row * prob_of_stride + j]
  std::vector<std::int32_t> top_ids;  ///< [row * top_stride + j]
  std::vector<float> top_probs;       ///< likewise
  std::uint32_t prob_of_stride = 0;
  std::uint32_t top_stride = 0;

  /// Room for the answers of `n_rows` rows, with `n_prob_of` probabilities and a top list of
  /// `n_top` each. Old answers are lost; memory is taken only where there was less.
  void reserve(std::uint32_t n_rows, std::uint32_t n_prob_of, std::uint32_t n_top) {
    sampled.resize(n_rows);
    sampled_prob.resize(n_rows);
    argmax.resize(n_rows);
    top1_prob.resize(n_rows);
    top2_prob.resize(n_rows);
    entropy.resize(n_rows);
    log_sum_exp.resize(n_rows);
    non_finite.resize(n_rows);
    prob_of.resize(static_cast<std::size_t>(n_rows) * n_prob_of);
    top_ids.resize(static_cast<std::size_t>(n_rows) * n_top);
    top_probs.resize(static_cast<std::size_t>(n_rows) * n_top);
    prob_of_stride = n_prob_of;
    top_stride = n_top;
  }
};

/// Asserts that the request's rows lie below `n_rows` and its answers have room in `stats`.
inline void require_room(const StatsRequest& request, std::uint32_t n_rows,
                         const HeadStats& stats) {
  const std::uint64_t count = request.positions.size();
  DLLM_ASSERT(request.first_row + count <= n_rows &&
              request.first_row + count <= stats.sampled.size());
  DLLM_ASSERT(!request.guided || request.guidance_first_row + count <= n_rows);
  DLLM_ASSERT((request.want & kStatProbOf) == 0 || request.prob_of.size() <= stats.prob_of_stride);
  DLLM_ASSERT((request.want & kStatTopList) == 0 || request.top_list <= stats.top_stride);
}

}  // namespace dllm

#include "engine/step_batch.hpp"

#include <algorithm>
#include <numeric>

namespace dllm {
namespace {

constexpr std::uint32_t kRecordedStats =
    kStatSampled | kStatArgmax | kStatTop2 | kStatEntropy | kStatLogSumExp | kStatTopList;

}  // namespace

StepBatch::StepBatch(const EngineLimits& limits)
    : full_logits_(limits.full_logits || limits.record_top_list > 0),
      record_top_list_(limits.record_top_list) {
  all_positions_.resize(full_logits_ ? limits.max_sequence_length : 0);
  std::iota(all_positions_.begin(), all_positions_.end(), 0u);
  ids_.reserve(limits.max_tokens);
  positions_.reserve(limits.max_tokens);
  slices_.reserve(std::size_t{2} * limits.max_sequences);
  score_.reserve(limits.max_tokens);
  requests_.reserve(limits.max_sequences);
}

void StepBatch::clear() {
  ids_.clear();
  positions_.clear();
  slices_.clear();
  score_.clear();
  requests_.clear();
}

void StepBatch::add_tokens(const Canvas& canvas, const dllm_model_facts& facts,
                           bool unconditional) {
  const auto ids = canvas.ids();
  const auto state = canvas.state();
  slices_.push_back({n_tokens(), canvas.size(), MaskKind::full, {}});
  for (std::uint32_t i = 0; i < canvas.size(); ++i) {
    // LLaDA generate.py: the unconditional pair has every token of the prompt masked.
    const bool hide = unconditional && state[i] == DLLM_POSITION_FIXED;
    ids_.push_back(hide ? facts.mask_id : ids[i]);
    positions_.push_back(static_cast<std::int32_t>(i));
  }
}

void StepBatch::add_rows(std::span<const std::uint32_t> positions, std::uint32_t begin) {
  for (const std::uint32_t position : positions) score_.push_back(begin + position);
}

void StepBatch::add(const dllm_plan& plan, const Canvas& canvas, const dllm_model_facts& facts,
                    std::uint64_t seed) {
  const std::span<const std::uint32_t> asked =
      full_logits_ ? std::span<const std::uint32_t>(all_positions_).first(canvas.size())
                   : std::span(plan.positions, plan.n_positions);
  StatsRequest request;
  request.first_row = n_score_rows();
  request.positions = asked;
  request.want = plan.want;
  request.domain = plan.domain == DLLM_DOMAIN_FILTERED ? Domain::filtered : Domain::raw;
  request.temperature = plan.temperature;
  request.top_p = plan.top_p;
  request.top_k = plan.top_k;
  request.suppress_both = {plan.suppress_both, plan.n_suppress_both};
  request.suppress_confidence = {plan.suppress_confidence, plan.n_suppress_confidence};
  request.prob_of = {plan.prob_of, plan.n_prob_of};
  request.top_list = plan.n_top_list;
  if (record_top_list_ > 0) {
    request.want |= kRecordedStats;
    request.top_list = std::max(request.top_list, record_top_list_);
  }
  request.allow_all = (plan.flags & DLLM_PLAN_ALLOW_ALL) != 0;
  request.mask_id = facts.mask_id;
  request.n_tokens = facts.n_tokens;
  request.seed = seed;
  request.step = canvas.step();

  const std::uint32_t begin = n_tokens();
  add_tokens(canvas, facts, false);
  add_rows(asked, begin);
  if (plan.guidance_scale != 0) {
    request.guided = true;
    request.guidance_scale = plan.guidance_scale;
    request.guidance_first_row = n_score_rows();
    const std::uint32_t pair_begin = n_tokens();
    add_tokens(canvas, facts, true);
    add_rows(asked, pair_begin);
  }
  requests_.push_back(request);
}

ForwardBatch StepBatch::forward() const { return {ids_, positions_, slices_, score_, false}; }

std::uint32_t StepBatch::row_of(std::size_t index, const dllm_plan& plan, std::uint32_t i) const {
  return requests_[index].first_row + (full_logits_ ? plan.positions[i] : i);
}

std::optional<std::uint32_t> StepBatch::first_non_finite(std::size_t index, const dllm_plan& plan,
                                                         const HeadStats& stats) const {
  for (std::uint32_t i = 0; i < plan.n_positions; ++i) {
    if (stats.non_finite[row_of(index, plan, i)] != 0) return plan.positions[i];
  }
  return std::nullopt;
}

// Copies the asked rows out of all: the plan's i-th position becomes row i of picked_.
void StepBatch::pick(std::size_t index, const dllm_plan& plan, const HeadStats& stats) {
  picked_.reserve(plan.n_positions, stats.prob_of_stride, stats.top_stride);
  for (std::uint32_t i = 0; i < plan.n_positions; ++i) {
    const std::size_t row = row_of(index, plan, i);
    const auto copy = [&](const auto& from, auto& to, std::size_t stride = 1) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(row * stride), stride,
                  to.begin() + static_cast<std::ptrdiff_t>(i * stride));
    };
    copy(stats.sampled, picked_.sampled);
    copy(stats.sampled_prob, picked_.sampled_prob);
    copy(stats.argmax, picked_.argmax);
    copy(stats.top1_prob, picked_.top1_prob);
    copy(stats.top2_prob, picked_.top2_prob);
    copy(stats.entropy, picked_.entropy);
    copy(stats.log_sum_exp, picked_.log_sum_exp);
    copy(stats.prob_of, picked_.prob_of, stats.prob_of_stride);
    copy(stats.top_ids, picked_.top_ids, stats.top_stride);
    copy(stats.top_probs, picked_.top_probs, stats.top_stride);
  }
}

dllm_stats StepBatch::answers(std::size_t index, const dllm_plan& plan, const HeadStats& stats) {
  if (full_logits_) pick(index, plan, stats);
  const HeadStats* source = full_logits_ ? &picked_ : &stats;
  const std::size_t first = full_logits_ ? 0 : requests_[index].first_row;
  const auto wanted = [&](std::uint32_t bit, const auto& values, std::size_t stride = 1) {
    return (plan.want & bit) != 0 ? values.data() + first * stride : nullptr;
  };
  dllm_stats out{};
  out.struct_size = sizeof out;
  out.n_rows = plan.n_positions;
  out.positions = plan.positions;
  out.sampled = wanted(DLLM_STAT_SAMPLED, source->sampled);
  out.sampled_prob = wanted(DLLM_STAT_SAMPLED, source->sampled_prob);
  out.argmax = wanted(DLLM_STAT_ARGMAX, source->argmax);
  out.top1_prob = wanted(DLLM_STAT_TOP2, source->top1_prob);
  out.top2_prob = wanted(DLLM_STAT_TOP2, source->top2_prob);
  out.entropy = wanted(DLLM_STAT_ENTROPY, source->entropy);
  out.log_sum_exp = wanted(DLLM_STAT_LOG_SUM_EXP, source->log_sum_exp);
  out.prob_of = wanted(DLLM_STAT_PROB_OF, source->prob_of, source->prob_of_stride);
  out.top_ids = wanted(DLLM_STAT_TOP_LIST, source->top_ids, source->top_stride);
  out.top_probs = wanted(DLLM_STAT_TOP_LIST, source->top_probs, source->top_stride);
  out.n_prob_of = source->prob_of_stride;
  out.n_top_list = source->top_stride;
  return out;
}

dllm_stats StepBatch::all_answers(std::size_t index, const HeadStats& stats) const {
  dllm_stats out{};
  out.struct_size = sizeof out;
  if (record_top_list_ == 0) return out;
  const StatsRequest& request = requests_[index];
  const std::size_t first = request.first_row;
  out.n_rows = static_cast<std::uint32_t>(request.positions.size());
  out.positions = request.positions.data();
  out.sampled = stats.sampled.data() + first;
  out.sampled_prob = stats.sampled_prob.data() + first;
  out.argmax = stats.argmax.data() + first;
  out.top1_prob = stats.top1_prob.data() + first;
  out.top2_prob = stats.top2_prob.data() + first;
  out.entropy = stats.entropy.data() + first;
  out.log_sum_exp = stats.log_sum_exp.data() + first;
  out.top_ids = stats.top_ids.data() + first * stats.top_stride;
  out.top_probs = stats.top_probs.data() + first * stats.top_stride;
  out.n_prob_of = stats.prob_of_stride;
  out.n_top_list = stats.top_stride;
  return out;
}

}  // namespace dllm

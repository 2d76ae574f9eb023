// Packs the plans of one step into one forward: tokens, rows to score and statistics requests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dllm/canvas.hpp"
#include "dllm/engine.hpp"
#include "dllm/head_stats.hpp"
#include "dllm/model.hpp"

namespace dllm {

class StepBatch {
 public:
  explicit StepBatch(const EngineLimits& limits);

  void clear();
  bool empty() const { return requests_.empty(); }
  std::uint32_t n_tokens() const { return static_cast<std::uint32_t>(ids_.size()); }
  std::uint32_t n_score_rows() const { return static_cast<std::uint32_t>(score_.size()); }
  /// Rows of the forward that `plan` would add.
  static std::uint32_t tokens_of(const dllm_plan& plan, const Canvas& canvas) {
    return canvas.size() * (plan.guidance_scale != 0 ? 2 : 1);
  }

  /// Adds one sequence. The plan's arrays must live until the forward is done.
  void add(const dllm_plan& plan, const Canvas& canvas, const dllm_model_facts& facts,
           std::uint64_t seed);

  ForwardBatch forward() const;
  std::span<const StatsRequest> requests() const { return requests_; }

  /// What the sampler of sequence `index` (in the order of add) asked, out of all answers. Pointers
  /// live until the next call.
  dllm_stats answers(std::size_t index, const dllm_plan& plan, const HeadStats& stats);
  /// Every statistic of every position, where all are recorded; else none. Borrows `stats`.
  dllm_stats all_answers(std::size_t index, const HeadStats& stats) const;
  /// Canvas position of the first non-finite answer among those the plan asked for.
  std::optional<std::uint32_t> first_non_finite(std::size_t index, const dllm_plan& plan,
                                                const HeadStats& stats) const;

 private:
  void add_tokens(const Canvas& canvas, const dllm_model_facts& facts, bool unconditional);
  void add_rows(std::span<const std::uint32_t> positions, std::uint32_t begin);
  std::uint32_t row_of(std::size_t index, const dllm_plan& plan, std::uint32_t i) const;
  void pick(std::size_t index, const dllm_plan& plan, const HeadStats& stats);

  bool full_logits_;
  std::uint32_t record_top_list_;
  std::vector<std::uint32_t> all_positions_;  // 0, 1, 2, ...: what --full-logits asks for
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> positions_;
  std::vector<SequenceSlice> slices_;
  std::vector<std::uint32_t> score_;
  std::vector<StatsRequest> requests_;
  HeadStats picked_;  // full_logits: the asked rows out of all
};

}  // namespace dllm

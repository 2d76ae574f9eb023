// One step's batch, checked and turned into what the ops read: which row scores which position, and
// which queries see which keys.
//
//   layout.reserve(limits);
//   layout.build(batch, hp.info);       // allocates nothing
//   lists.scored_rows->write(layout.scored_rows());
//
// Thread rule: one thread per object.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dllm/model.hpp"

namespace dllm::model_common {

class StepLayout {
 public:
  /// Room for every batch within the limits.
  void reserve(const BatchLimits& limits);

  /// Throws Error (unsupported) for mask kinds and cache uses that are not built, (bad_usage) for a
  /// token id outside the vocabulary, (internal) for a batch that contradicts itself or the limits.
  void build(const ForwardBatch& batch, const ModelInfo& info);

  /// Row of the pack that scores score[i]: with the shift, the row before it in its own sequence
  /// (row 0 scores position 0 too; Dream `generation_utils.py` moves the logits on by one row and
  /// keeps the first).
  std::span<const std::int32_t> scored_rows() const noexcept { return scored_rows_; }
  /// Rope position of each of those rows.
  std::span<const std::int32_t> scored_positions() const noexcept { return scored_positions_; }
  /// Every row's queries, and the scored rows' queries (numbered as score is). Both lists are
  /// n_spans() long, filled up with empty spans, so that equal step keys mean equal shapes.
  std::span<const AttentionSpan> all_spans() const noexcept { return all_spans_; }
  std::span<const AttentionSpan> scored_spans() const noexcept { return scored_spans_; }

  std::uint32_t n_tokens() const noexcept { return n_tokens_; }
  std::uint32_t n_scored() const noexcept {
    return static_cast<std::uint32_t>(scored_rows_.size());
  }
  std::uint32_t n_spans() const noexcept { return static_cast<std::uint32_t>(all_spans_.size()); }

  /// The most spans a batch within the limits can need: a sequence's scored rows need not be
  /// together in `score`.
  static std::uint32_t max_spans(const BatchLimits& limits) noexcept;

 private:
  void check_limits(const ForwardBatch& batch) const;
  void lay_out_sequences(const ForwardBatch& batch);
  void lay_out_scored_rows(const ForwardBatch& batch, bool shift);

  BatchLimits limits_;
  std::uint32_t n_tokens_ = 0;
  std::vector<std::uint32_t> sequence_of_;  ///< per token
  std::vector<std::int32_t> scored_rows_;
  std::vector<std::int32_t> scored_positions_;
  std::vector<AttentionSpan> all_spans_;
  std::vector<AttentionSpan> scored_spans_;
};

}  // namespace dllm::model_common

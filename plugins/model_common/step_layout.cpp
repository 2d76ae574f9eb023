#include "model_common/step_layout.hpp"

#include <algorithm>
#include <string>

#include "dllm/error.hpp"
#include "model_common/text.hpp"

namespace dllm::model_common {
namespace {

void refuse_unbuilt(const SequenceSlice& sequence, std::size_t number) {
  const auto refuse = [number](std::string fact, std::string fix) {
    throw Error(ErrorCode::unsupported, std::move(fact), text("sequence ", number, " of the batch"),
                std::move(fix));
  };
  if (sequence.mask != MaskKind::full) {
    refuse(
        text("attention mask kind ", mask_kind_name(sequence.mask), " is not built (built: full)"),
        "use a sampler that works on full attention");
  }
  if (sequence.cache.read || sequence.cache.write) {
    refuse(text("cache use (handle ", sequence.cache.handle, sequence.cache.read ? ", read" : "",
                sequence.cache.write ? ", write" : "", ") is not built"),
           "run without a cache");
  }
}

[[noreturn]] void contradiction(std::string fact) {
  throw Error(ErrorCode::internal, std::move(fact), "ForwardBatch", "report it: a bug in dllm");
}

void check_ids(std::span<const std::int32_t> ids, std::uint32_t n_vocab) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<std::uint32_t>(ids[i]) >= n_vocab) {
      throw Error(
          ErrorCode::bad_usage,
          text("token id ", ids[i], " is outside the model's vocabulary (0 to ", n_vocab - 1, ")"),
          text("token ", i, " of the batch"), "use ids of this model's tokenizer");
    }
  }
}

}  // namespace

std::uint32_t StepLayout::max_spans(const BatchLimits& limits) noexcept {
  return std::max(limits.max_sequences, limits.max_score_rows);
}

void StepLayout::reserve(const BatchLimits& limits) {
  limits_ = limits;
  sequence_of_.reserve(limits.max_tokens);
  scored_rows_.reserve(limits.max_score_rows);
  scored_positions_.reserve(limits.max_score_rows);
  all_spans_.reserve(max_spans(limits));
  scored_spans_.reserve(max_spans(limits));
}

void StepLayout::build(const ForwardBatch& batch, const ModelInfo& info) {
  check_limits(batch);
  check_ids(batch.ids, info.n_vocab);
  lay_out_sequences(batch);
  lay_out_scored_rows(batch, info.shift_logits && !batch.raw_rows);
  const auto n_spans = std::max(all_spans_.size(), scored_spans_.size());
  all_spans_.resize(n_spans);
  scored_spans_.resize(n_spans);
}

void StepLayout::check_limits(const ForwardBatch& batch) const {
  const auto check = [](std::string_view what, std::size_t value, std::size_t limit) {
    if (value > limit) contradiction(text(value, " ", what, ", reserve() was called for ", limit));
  };
  check("tokens", batch.ids.size(), limits_.max_tokens);
  check("score rows", batch.score.size(), limits_.max_score_rows);
  check("sequences", batch.sequences.size(), limits_.max_sequences);
  if (batch.positions.size() != batch.ids.size()) {
    contradiction(text(batch.ids.size(), " ids but ", batch.positions.size(), " positions"));
  }
  for (const auto& sequence : batch.sequences) {
    check("tokens in one sequence", sequence.length, limits_.max_sequence_length);
  }
}

void StepLayout::lay_out_sequences(const ForwardBatch& batch) {
  n_tokens_ = static_cast<std::uint32_t>(batch.ids.size());
  sequence_of_.clear();
  all_spans_.clear();
  std::uint32_t next = 0;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceSlice& sequence = batch.sequences[s];
    refuse_unbuilt(sequence, s);
    if (sequence.begin != next || sequence.length == 0 || sequence.length > n_tokens_ - next) {
      contradiction(text("sequence ", s, " is [", sequence.begin, ", +", sequence.length,
                         "), expected a non-empty one from ", next, " within ", n_tokens_,
                         " tokens"));
    }
    all_spans_.push_back(
        {sequence.begin, sequence.length, sequence.begin, sequence.length, MaskKind::full});
    next += sequence.length;
    sequence_of_.resize(next, static_cast<std::uint32_t>(s));
  }
  if (next != n_tokens_) {
    contradiction(text(n_tokens_, " tokens, the sequences hold ", next));
  }
}

void StepLayout::lay_out_scored_rows(const ForwardBatch& batch, bool shift) {
  scored_rows_.clear();
  scored_positions_.clear();
  scored_spans_.clear();
  for (const std::uint32_t token : batch.score) {
    if (token >= n_tokens_) {
      contradiction(text("score names token ", token, " of ", n_tokens_));
    }
    const AttentionSpan& sequence = all_spans_[sequence_of_[token]];
    const std::uint32_t row = shift && token > sequence.q_begin ? token - 1 : token;
    const bool continues =
        !scored_spans_.empty() && scored_spans_.back().kv_begin == sequence.kv_begin;
    if (!continues) {
      scored_spans_.push_back(
          {n_scored(), 0, sequence.kv_begin, sequence.kv_count, MaskKind::full});
    }
    ++scored_spans_.back().q_count;
    scored_rows_.push_back(static_cast<std::int32_t>(row));
    scored_positions_.push_back(batch.positions[row]);
  }
}

}  // namespace dllm::model_common

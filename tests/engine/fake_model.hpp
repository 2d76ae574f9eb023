// A model without weights: the token it would write at a position is a known function of the
// canvas, so a test can tell which rows were asked for and which ids the forward saw.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "dllm/model.hpp"

namespace dllm::test {

class FakeModel : public Model {
 public:
  static constexpr std::int32_t kMask = 90;
  static constexpr std::int32_t kStop = 91;
  static constexpr std::uint32_t kTokens = 92;
  static constexpr std::uint32_t kRows = 96;

  FakeModel() {
    info_.architecture = "fake";
    info_.n_vocab = kRows;
    info_.context_length = 64;
  }

  /// Token the model is surest of at `position` of a sequence with these ids.
  std::function<std::int32_t(std::uint32_t position, std::span<const std::int32_t> ids)> token =
      [](std::uint32_t position, std::span<const std::int32_t>) {
        return static_cast<std::int32_t>(position % 50);
      };
  /// Its probability; also what top1_prob says.
  std::function<float(std::uint32_t position)> probability = [](std::uint32_t position) {
    return 1.0f / (1.0f + static_cast<float>(position));
  };
  std::uint32_t nan_position = UINT32_MAX;

  // What the last forward brought.
  std::vector<std::int32_t> seen_ids;
  std::vector<SequenceSlice> seen_slices;
  std::vector<StatsRequest> seen_requests;
  std::uint32_t forwards = 0;
  std::uint64_t tokens_computed = 0;
  BatchLimits limits;
  std::uint32_t most_tokens = UINT32_MAX;  // that reserve() finds memory for

  const ModelInfo& info() const override { return info_; }
  void reserve(const BatchLimits& given) override {
    limits = {};
    if (given.max_tokens > most_tokens) {
      throw Error(ErrorCode::resource, "no memory", "fake model", "ask for less");
    }
    limits = given;
  }

  void forward_stats(const ForwardBatch& batch, std::span<const StatsRequest> requests,
                     HeadStats& stats) override {
    ++forwards;
    tokens_computed += batch.ids.size();
    seen_ids.assign(batch.ids.begin(), batch.ids.end());
    seen_slices.assign(batch.sequences.begin(), batch.sequences.end());
    seen_requests.assign(requests.begin(), requests.end());
    answered_.clear();
    for (const StatsRequest& request : requests) {
      for (std::size_t i = 0; i < request.positions.size(); ++i) {
        answer(batch, request.first_row + i, request.positions[i], stats);
      }
    }
  }
  void forward_logits(const ForwardBatch&, std::span<float>) override {}
  /// Row r of the last forward: 10 r + id / 100, and 1000 for the token it answered.
  void last_logits(std::span<float> out) override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>(10 * (i / kRows)) + static_cast<float>(i % kRows) / 100;
    }
    for (const auto& [row, id] : answered_) {
      out[row * kRows + static_cast<std::size_t>(id)] = 1000;
    }
  }

  ModelInfo info_;

 private:
  void answer(const ForwardBatch& batch, std::size_t row, std::uint32_t position,
              HeadStats& stats) {
    const std::uint32_t index = batch.score[row];
    const auto slice = std::find_if(
        batch.sequences.begin(), batch.sequences.end(), [&](const SequenceSlice& candidate) {
          return index >= candidate.begin && index < candidate.begin + candidate.length;
        });
    stats.sampled[row] = token(position, batch.ids.subspan(slice->begin, slice->length));
    answered_.emplace_back(row, stats.sampled[row]);
    stats.sampled_prob[row] = probability(position);
    stats.argmax[row] = stats.sampled[row];
    stats.top1_prob[row] = probability(position);
    stats.top2_prob[row] = 0;
    stats.entropy[row] = 0;
    stats.log_sum_exp[row] = 0;
    stats.non_finite[row] = position == nan_position ? 1 : 0;
  }

  std::vector<std::pair<std::size_t, std::int32_t>> answered_;  // row and token
};

}  // namespace dllm::test

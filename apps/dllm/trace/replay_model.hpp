// A model that answers from a trace: the statistics that were recorded for the canvas most like the
// one it is asked about.
//
// A row is exact where canvas, position and the plan's parameters are the recorded ones; else it is
// rebuilt from the recorded list of likeliest tokens, which is an approximation and counted as one.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "dllm/model.hpp"
#include "dllm_sdk/row_statistics.hpp"
#include "trace/trace.hpp"

namespace dllm::cli {

class ReplayModel final : public Model {
 public:
  /// `trace` must outlive this.
  explicit ReplayModel(const Trace& trace);

  const ModelInfo& info() const override { return info_; }
  void reserve(const BatchLimits&) override {}
  /// Throws Error (unsupported) for a position that was not recorded.
  void forward_stats(const ForwardBatch& batch, std::span<const StatsRequest> requests,
                     HeadStats& stats) override;
  void forward_logits(const ForwardBatch& batch, std::span<float> out) override;
  void last_logits(std::span<float> out) override;

  std::uint64_t exact_rows() const { return exact_rows_; }
  std::uint64_t approximate_rows() const { return approximate_rows_; }

 private:
  struct Recorded {
    const TraceRound* round;
    std::vector<std::int32_t> ids;  ///< the canvas it was asked about
  };

  /// The one with the fewest differing ids; the earlier of two.
  const Recorded& nearest(std::span<const std::int32_t> ids, bool& same) const;
  void answer(const Recorded& recorded, bool same, const StatsRequest& request, std::size_t i,
              HeadStats& stats);

  const Trace& trace_;
  ModelInfo info_;
  std::vector<Recorded> forwards_;
  std::uint64_t exact_rows_ = 0;
  std::uint64_t approximate_rows_ = 0;
};

}  // namespace dllm::cli

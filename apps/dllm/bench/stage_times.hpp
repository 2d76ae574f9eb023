// Sums what a profile reports: per stage, and per named part inside the stages.
//
//   StageTimes times;
//   backend.set_profile(&times);
//   ... steps ...
//   times.of(Stage::ffn).ms;
//
// Thread rule: the thread that runs the steps.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "dllm/profile.hpp"

namespace dllm::cli {

struct StageFigures {
  double ms = 0;
  double integer_operations = 0;
  double float_operations = 0;
  double weight_bytes = 0;
};

/// An op's name, or a part of ops: "rope", "norm, quantise".
struct PartTime {
  std::string name;
  double ms = 0;
};

class StageTimes final : public ProfileSink {
 public:
  void span(const StageSpan& span) override;
  void move(Stage from, Stage to, std::int64_t ns) override;
  void clear();

  const StageFigures& of(Stage stage) const { return stages_[static_cast<std::size_t>(stage)]; }
  /// In the order they were first seen.
  const std::vector<PartTime>& parts() const { return parts_; }
  /// What all stages but `other` come to.
  double named_ms() const;

 private:
  StageFigures& at(Stage stage) { return stages_[static_cast<std::size_t>(stage)]; }

  std::array<StageFigures, kStages> stages_{};
  std::vector<PartTime> parts_;
};

}  // namespace dllm::cli

#include "bench/stage_times.hpp"

#include <algorithm>

namespace dllm::cli {
namespace {

double to_ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

void StageTimes::span(const StageSpan& span) {
  const double ms = to_ms(span.end_ns - span.begin_ns);
  auto part = std::ranges::find(parts_, span.name, &PartTime::name);
  if (part == parts_.end()) part = parts_.insert(part, {span.name, 0});
  part->ms += ms;
  if (span.is_part) return;
  StageFigures& stage = at(span.stage);
  stage.ms += ms;
  stage.integer_operations += span.integer_operations;
  stage.float_operations += span.float_operations;
  stage.weight_bytes += span.weight_bytes;
}

void StageTimes::move(Stage from, Stage to, std::int64_t ns) {
  at(from).ms -= to_ms(ns);
  at(to).ms += to_ms(ns);
}

void StageTimes::clear() {
  stages_ = {};
  parts_.clear();
}

double StageTimes::named_ms() const {
  double sum = 0;
  for (std::size_t i = 0; i < kStages; ++i)
    if (static_cast<Stage>(i) != Stage::other) sum += stages_[i].ms;
  return sum;
}

}  // namespace dllm::cli

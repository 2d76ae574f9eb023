// dllm bench --trace: one step as a Chrome trace (chrome://tracing, ui.perfetto.dev).
//
//   TraceRecorder recorder(n_threads);
//   profile_one_step(plan, loaded, work, recorder);
//   write_trace("step.json", recorder, metadata);
//
// Row "step" has the ops with their parts inside; below it each thread of the backend has a row
// with the items it worked on, named after the op they belong to. Format: "Trace Event Format",
// complete events (ph X), times in microseconds from the first span.
#pragma once

#include <string>
#include <vector>

#include "dllm/profile.hpp"
#include "output/json.hpp"

namespace dllm::cli {

/// Keeps every span. Thread rule: as ProfileSink says; read it when the step is over.
class TraceRecorder final : public ProfileSink {
 public:
  explicit TraceRecorder(std::uint32_t n_threads);
  void span(const StageSpan& span) override { spans_.push_back(span); }
  void move(Stage, Stage, std::int64_t) override {}  // a share has no place of its own
  bool wants_work() const noexcept override { return true; }
  void work(const WorkSpan& span) override;

  const std::vector<StageSpan>& spans() const { return spans_; }
  const std::vector<std::vector<WorkSpan>>& work_of_threads() const { return work_; }

 private:
  std::vector<StageSpan> spans_;
  std::vector<std::vector<WorkSpan>> work_;  // by thread, so that none waits for another
};

/// The whole trace; `about` goes into otherData.
Json trace_json(const TraceRecorder& recorder, const Json& about);
/// Complete or absent. Throws Error (resource) with the system's reason.
void write_trace(const std::string& path, const TraceRecorder& recorder, const Json& about);

}  // namespace dllm::cli

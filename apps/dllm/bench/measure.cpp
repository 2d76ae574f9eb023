#include "bench/measure.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "session/finite_weights.hpp"
#include "session/interrupt.hpp"
#include "session/stopwatch.hpp"

namespace dllm::cli {
namespace {

// The engine and the backend report to `sink` while this lives.
class Listening {
 public:
  Listening(Engine& engine, Backend& backend, ProfileSink& sink)
      : engine_(engine), backend_(backend) {
    engine_.set_profile(&sink);
    backend_.set_profile(&sink);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    engine_.set_profile(nullptr);
    backend_.set_profile(nullptr);
  }

 private:
  Engine& engine_;
  Backend& backend_;
};

EngineLimits limits_of(const RunPlan& plan, const BenchWork& work) {
  const auto length = static_cast<std::uint32_t>(plan.request.ids.size());
  return {.max_sequences = 1,
          .max_sequence_length = length,
          .max_tokens = 2 * length,
          .first_tokens = plan.forward_tokens,
          .full_logits = !work.asked_rows};
}

void require_no_fault(const SequenceResult& result, const RunPlan& plan) {
  if (result.error == nullptr) return;
  if (result.error->code() == ErrorCode::bad_file) require_finite_weights(*plan.model.file);
  throw Error(*result.error);
}

// Steps of a fresh sequence, `most` of them that need a forward at most.
struct Steps {
  std::uint32_t forwards = 0;
  std::uint64_t rows = 0;
  bool finished = false;
};

Steps run_steps(Engine& engine, const RunPlan& plan, std::uint32_t most) {
  Steps steps;
  const SequenceId id = engine.add(plan.request);
  while (engine.running() && steps.forwards < most && !interrupted()) {
    const StepReport& report = engine.step();
    steps.forwards += report.n_tokens > 0 ? 1 : 0;
    steps.rows += report.n_score_rows;
  }
  require_no_fault(engine.result(id), plan);
  steps.finished = !engine.running();
  engine.remove(id);
  return steps;
}

Repeat make_repeat(const Steps& steps, double ms, std::size_t n_generated,
                   const StageTimes& times) {
  const double n = std::max(steps.forwards, 1u);
  Repeat repeat;
  repeat.steps = steps.forwards;
  repeat.ms_per_step = ms / n;
  repeat.tokens_per_second = ms > 0 ? static_cast<double>(n_generated) / (ms / 1000) : 0;
  repeat.rows = static_cast<double>(steps.rows) / n;
  for (std::size_t i = 0; i < kStages; ++i) {
    const StageFigures& stage = times.of(static_cast<Stage>(i));
    repeat.stages[i] = {stage.ms / n, stage.integer_operations / n, stage.float_operations / n,
                        stage.weight_bytes / n};
  }
  repeat.stages[static_cast<std::size_t>(Stage::other)].ms =
      std::max(0.0, ms - times.named_ms()) / n;
  repeat.parts = times.parts();
  for (PartTime& part : repeat.parts) part.ms /= n;
  return repeat;
}

}  // namespace

std::vector<Repeat> measure(const RunPlan& plan, const LoadedModel& loaded, const BenchWork& work,
                            Console& console) {
  Engine engine(*loaded.model, limits_of(plan, work));
  for (std::uint32_t done = 0; done < work.warmup && !interrupted();) {
    console.status(fmt::format("warm-up step {} of {}", done + 1, work.warmup));
    done += std::max(run_steps(engine, plan, work.warmup - done).forwards, 1u);
  }
  const std::size_t n_generated = plan.request.ids.size() - plan.prompt.size();
  StageTimes times;
  const Listening listening(engine, *loaded.backend, times);
  std::vector<Repeat> repeats;
  while (repeats.size() < work.repeat && !interrupted()) {
    console.status(fmt::format("repeat {} of {}", repeats.size() + 1, work.repeat));
    times.clear();
    const Stopwatch watch;
    const Steps steps = run_steps(engine, plan, UINT32_MAX);
    const double ms = watch.elapsed_ms();
    if (steps.finished) repeats.push_back(make_repeat(steps, ms, n_generated, times));
  }
  console.clear_status();
  return repeats;
}

void profile_one_step(const RunPlan& plan, const LoadedModel& loaded, const BenchWork& work,
                      ProfileSink& sink) {
  Engine engine(*loaded.model, limits_of(plan, work));
  const Listening listening(engine, *loaded.backend, sink);
  run_steps(engine, plan, 1);
}

}  // namespace dllm::cli

// The measured part of dllm bench: whole steps, again and again.
//
//   std::vector<Repeat> repeats = measure(plan, loaded, work, console);
//
// A repeat runs one sequence from its masked canvas to its end, so all repeats do the same work.
// Warm-up steps come first and count for nothing. Thread rule: one thread.
#pragma once

#include <array>
#include <vector>

#include "bench/stage_times.hpp"
#include "output/console.hpp"
#include "session/plan_run.hpp"

namespace dllm::cli {

struct BenchWork {
  std::uint32_t repeat = 1;
  std::uint32_t warmup = 0;  ///< steps
  bool asked_rows = false;   ///< score what the sampler asks for; else every position
};

/// One repeat. Stages and parts are means per step, in the order of Stage.
struct Repeat {
  double ms_per_step = 0;
  double tokens_per_second = 0;  ///< positions filled
  double rows = 0;               ///< through the head, per step
  std::uint32_t steps = 0;       ///< that needed a forward
  std::array<StageFigures, kStages> stages{};
  std::vector<PartTime> parts;
};

/// Ends early, with the complete repeats, after Ctrl-C. Throws the sequence's own Error.
std::vector<Repeat> measure(const RunPlan& plan, const LoadedModel& loaded, const BenchWork& work,
                            Console& console);

/// One more first step with `sink` listening.
void profile_one_step(const RunPlan& plan, const LoadedModel& loaded, const BenchWork& work,
                      ProfileSink& sink);

}  // namespace dllm::cli

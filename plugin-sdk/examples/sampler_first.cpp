#include <cstdint>
#include <memory>

#include "dllm_sdk/sampler.hpp"

namespace {

using namespace dllm::sdk;

class FirstRun final : public Run {
 public:
  void plan(const Canvas& canvas, Plan& plan) const override {
    plan.positions = canvas.open_positions();
    if (plan.positions.size() > 1) plan.positions.resize(1);
    plan.want = DLLM_STAT_SAMPLED;
  }

  Progress apply(const Canvas& canvas, const Stats& stats, Edits& edits) override {
    if (stats.rows() == 0) return Progress::finished;
    edits.commit(stats.position(0), stats.sampled(0), stats.sampled_prob(0));
    return canvas.open_positions().size() == 1 ? Progress::finished : Progress::running;
  }
};

class FirstSampler final : public Sampler {
 public:
  FirstSampler(const Options&, const dllm_model_facts&) {}
  std::unique_ptr<Run> start(const Canvas&, std::uint64_t) const override {
    return std::make_unique<FirstRun>();
  }
};

}  // namespace

DLLM_SAMPLER_PLUGIN("first", "1.0.0", "one token a step, from left to right", FirstSampler, nullptr)

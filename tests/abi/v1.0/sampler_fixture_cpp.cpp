// Commits every position whose candidate is likelier than a threshold, and always the likeliest
// (Fast-dLLM's parallel rule, within windows of masked positions).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dllm_sdk/sampler.hpp"

namespace {

using namespace dllm::sdk;

constexpr dllm_option_info kOptions[] = {
    number_option("threshold", "0.9", 0, 1, "commit candidates at least this likely"),
    integer_option("window", "32", 1, 1e6, "masked positions looked at, from the left"),
    number_option("temperature", "0", 0, 1e6, "of the candidate token; 0: the most likely"),
};

struct Settings {
  double threshold;
  std::size_t window;
  float temperature;
};

class ThresholdRun final : public Run {
 public:
  explicit ThresholdRun(const Settings& settings) : settings_(settings) {}

  void plan(const Canvas& canvas, Plan& plan) const override {
    plan.positions = canvas.open_positions();
    if (plan.positions.size() > settings_.window) plan.positions.resize(settings_.window);
    plan.want = DLLM_STAT_SAMPLED;
    plan.temperature = settings_.temperature;
  }

  Progress apply(const Canvas& canvas, const Stats& stats, Edits& edits) override {
    std::vector<double> confidence(stats.rows());
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      confidence[row] = stats.sampled_prob(row);
    }
    const auto sure = static_cast<std::size_t>(std::count_if(
        confidence.begin(), confidence.end(), [&](double c) { return c >= settings_.threshold; }));
    for (const std::uint32_t row : largest(confidence, std::max<std::size_t>(sure, 1))) {
      edits.commit(stats.position(row), stats.sampled(row), confidence[row]);
    }
    const bool filled = canvas.open_positions().size() == edits.size();
    return filled ? Progress::finished : Progress::running;
  }

 private:
  const Settings& settings_;  // the sampler outlives its runs
};

class ThresholdSampler final : public Sampler {
 public:
  ThresholdSampler(const Options& options, const dllm_model_facts& facts)
      : settings_{options.number("threshold"), static_cast<std::size_t>(options.integer("window")),
                  plan_temperature(options.number("temperature"))} {
    if (settings_.window > facts.context_length) {
      throw OptionError("window " + std::to_string(settings_.window) +
                        " is longer than the context of " + std::to_string(facts.context_length) +
                        ". Fix: lower window");
    }
  }

  std::unique_ptr<Run> start(const Canvas&, std::uint64_t) const override {
    return std::make_unique<ThresholdRun>(settings_);
  }

 private:
  Settings settings_;
};

}  // namespace

DLLM_SAMPLER_PLUGIN("fixture_cpp", "1.0.0", "everything likelier than a threshold", ThresholdSampler,
                    kOptions)

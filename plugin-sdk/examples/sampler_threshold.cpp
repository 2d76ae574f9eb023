// Everything likelier than a threshold at once, and always the likeliest (Fast-dLLM, Wu et al.
// 2025).
#include "dllm_sdk/sampler.hpp"

namespace {

using namespace dllm::sdk;

constexpr dllm_option_info kOptions[] = {
    number_option("threshold", "0.9", 0, 1, "commit candidates at least this likely")};

class ThresholdRun final : public Run {
 public:
  explicit ThresholdRun(double threshold) : threshold_(threshold) {}

  void plan(const Canvas& canvas, Plan& plan) const override {
    plan.positions = canvas.open_positions();
    plan.want = DLLM_STAT_SAMPLED;
  }

  Progress apply(const Canvas&, const Stats& stats, Edits& edits) override {
    std::vector<double> confidence;
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      confidence.push_back(stats.sampled_prob(row));
    }
    const auto sure = std::count_if(confidence.begin(), confidence.end(),
                                    [this](double c) { return c >= threshold_; });
    for (const std::uint32_t row : largest(confidence, sure > 0 ? std::size_t(sure) : 1)) {
      edits.commit(stats.position(row), stats.sampled(row), confidence[row]);
    }
    return edits.size() == stats.rows() ? Progress::finished : Progress::running;
  }

 private:
  double threshold_;
};

class ThresholdSampler final : public Sampler {
 public:
  ThresholdSampler(const Options& options, const dllm_model_facts&)
      : threshold_(options.number("threshold")) {}
  std::unique_ptr<Run> start(const Canvas&, std::uint64_t) const override {
    return std::make_unique<ThresholdRun>(threshold_);
  }

 private:
  double threshold_;
};

}  // namespace

DLLM_SAMPLER_PLUGIN("threshold", "1.0.0", "everything likelier than a threshold", ThresholdSampler,
                    kOptions)

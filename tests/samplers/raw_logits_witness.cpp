// A sampler that holds the whole logits it takes to the statistics of the same rows: it computes
// what it asked for by the SDK's definitions, in double, and ends the run where they differ.
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dllm_sdk/row_statistics.hpp"
#include "dllm_sdk/sampler.hpp"

namespace {

using namespace dllm::sdk;

constexpr dllm_option_info kOptions[] = {
    number_option("guidance", "0", -10, 10, "as the plan's guidance_scale")};

class WitnessRun final : public Run {
 public:
  WitnessRun(float guidance, const dllm_model_facts& facts) : guidance_(guidance), facts_(facts) {}

  // Every second open position, so that rows and positions are not the same numbers.
  void plan(const Canvas& canvas, Plan& plan) const override {
    const auto open = canvas.open_positions();
    for (std::size_t i = 0; i < open.size(); i += 2) plan.positions.push_back(open[i]);
    plan.want = DLLM_STAT_ARGMAX | DLLM_STAT_TOP2 | DLLM_STAT_ENTROPY | DLLM_STAT_LOG_SUM_EXP;
    plan.guidance_scale = guidance_;
  }

  void take_logits(const Canvas& canvas, const Logits& logits) override {
    expected_.clear();
    for (std::uint32_t row = 0; row < logits.rows(); ++row) {
      LogitRow values;
      for (std::uint32_t id = 0; id < logits.vocabulary(); ++id) {
        values.push_back({static_cast<std::int32_t>(id), double{logits.row(row)[id]}});
      }
      dllm_plan plan{};
      plan.top_p = 1;
      expected_.push_back(
          row_statistics(std::move(values), plan, facts_, 0, canvas.step(), logits.position(row)));
    }
  }

  Progress apply(const Canvas& canvas, const Stats& stats, Edits& edits) override {
    if (expected_.size() != stats.rows()) throw std::runtime_error("no logits were given");
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      const RowStatistics& want = expected_[row];
      require("top1_prob", stats.top1_prob(row), want.top1_prob);
      require("top2_prob", stats.top2_prob(row), want.top2_prob);
      require("entropy", stats.entropy(row), want.entropy);
      require("log_sum_exp", stats.log_sum_exp(row), want.log_sum_exp);
      if (stats.argmax(row) != want.argmax) throw std::runtime_error("argmax differs");
      edits.commit(stats.position(row), stats.argmax(row), double{stats.top1_prob(row)});
    }
    expected_.clear();
    return edits.size() == canvas.open_positions().size() ? Progress::finished : Progress::running;
  }

 private:
  // Both are of the same float logits; what differs is the rounding of sums in float.
  static void require(const char* name, float got, double want) {
    constexpr double kTolerance = 2e-5;
    if (std::abs(double{got} - want) <= kTolerance * (1 + std::abs(want))) return;
    throw std::runtime_error(std::string(name) + " is " + std::to_string(got) +
                             ", the logits say " + std::to_string(want));
  }

  float guidance_;
  const dllm_model_facts& facts_;
  std::vector<RowStatistics> expected_;
};

class WitnessSampler final : public Sampler {
 public:
  WitnessSampler(const Options& options, const dllm_model_facts& facts)
      : guidance_(static_cast<float>(options.number("guidance"))), facts_(facts) {}
  std::unique_ptr<Run> start(const Canvas&, std::uint64_t) const override {
    return std::make_unique<WitnessRun>(guidance_, facts_);
  }
  static const void* extension(const char* name) {
    return std::strcmp(name, DLLM_EXTENSION_RAW_LOGITS) == 0 ? &kRawLogitsTable : nullptr;
  }

 private:
  float guidance_;
  dllm_model_facts facts_;
};

}  // namespace

DLLM_SAMPLER_PLUGIN("witness", "1.0.0", "holds whole logits to the statistics", WitnessSampler,
                    kOptions)

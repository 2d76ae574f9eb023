// Guidance that fades: strong while most of the answer is open, none once `until` of it is filled,
// from where on a step costs half (no second pass without the prompt). Shows guidance, what only
// create() and start() can refuse, and an extension asked for by name: "dllm.presets/1".
#include <cstring>

#include "dllm_sdk/presets_abi.h"
#include "dllm_sdk/sampler.hpp"

namespace {

using namespace dllm::sdk;

constexpr dllm_option_info kOptions[] = {
    number_option("scale", "2", 0, 100, "guidance at the start; 0: off"),
    number_option("until", "0.5", 0, 1, "share filled at which guidance has faded to none"),
    integer_option("per_step", "2", 1, 1e6, "positions committed a step"),
    number_option("temperature", "0", 0, 1e6, "of the candidate token; 0: the most likely"),
};

struct Settings {
  double scale;
  double until;
  std::size_t per_step;
  float temperature;
};

class GuidedRun final : public Run {
 public:
  GuidedRun(const Settings& settings, std::size_t n_open) : settings_(settings), n_open_(n_open) {}

  void plan(const Canvas& canvas, Plan& plan) const override {
    plan.positions = canvas.open_positions();
    plan.want = DLLM_STAT_SAMPLED;
    plan.temperature = settings_.temperature;
    plan.guidance_scale = scale_at(plan.positions.size());
  }

  Progress apply(const Canvas&, const Stats& stats, Edits& edits) override {
    std::vector<double> confidence(stats.rows());
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      confidence[row] = stats.sampled_prob(row);
    }
    for (const std::uint32_t row : largest(confidence, settings_.per_step)) {
      edits.commit(stats.position(row), stats.sampled(row), confidence[row]);
    }
    return edits.size() == stats.rows() ? Progress::finished : Progress::running;
  }

 private:
  // Falls in a straight line to 0; others may fill or mask positions, so never below.
  float scale_at(std::size_t open) const {
    if (open >= n_open_) return static_cast<float>(settings_.scale);
    const double filled = 1 - static_cast<double>(open) / static_cast<double>(n_open_);
    if (filled >= settings_.until) return 0;
    return static_cast<float>(settings_.scale * (1 - filled / settings_.until));
  }

  const Settings& settings_;  // the sampler outlives its runs
  std::size_t n_open_;
};

class GuidedSampler final : public Sampler {
 public:
  GuidedSampler(const Options& options, const dllm_model_facts&)
      : settings_{options.number("scale"), options.number("until"),
                  static_cast<std::size_t>(options.integer("per_step")),
                  plan_temperature(options.number("temperature"))} {
    if (settings_.until == 0 && settings_.scale > 0) {
      throw OptionError("scale " + std::to_string(settings_.scale) +
                        " can never act with until 0. Fix: raise until, or give scale 0");
    }
  }

  std::unique_ptr<Run> start(const Canvas& canvas, std::uint64_t) const override {
    return std::make_unique<GuidedRun>(settings_, canvas.open_positions().size());
  }

  static const void* extension(const char* name);

 private:
  Settings settings_;
};

constexpr dllm_preset_value kStrong[] = {{"scale", "4"}, {"until", "1"}};
constexpr dllm_preset_value kOff[] = {{"scale", "0"}};
constexpr dllm_preset kPresets[] = {{"strong", "guided from end to end", kStrong, 2, 0},
                                    {"off", "no guidance", kOff, 1, 0}};
// What LLaDA's own code calls it.
constexpr dllm_option_alias kAliases[] = {{"cfg_scale", "0", "scale", "0"}};
constexpr dllm_presets_v1 kPresetTable = {sizeof(dllm_presets_v1), 2, kPresets, kAliases, 1, 0};

const void* GuidedSampler::extension(const char* name) {
  return std::strcmp(name, DLLM_EXTENSION_PRESETS) == 0 ? &kPresetTable : nullptr;
}

}  // namespace

DLLM_SAMPLER_PLUGIN("guided", "1.0.0", "guidance that fades as the answer fills", GuidedSampler,
                    kOptions)

// Dream's decoding rule (Dream generation_utils.py): over steps of a falling time t, a share
// 1 - t[i+1]/t[i] of the masked positions is filled, chosen by chance (origin) or by confidence
// (maskgit_plus: probability of the candidate; topk_margin: first minus second probability;
// entropy: negative entropy), all on the tempered and truncated distribution. The last step fills
// the rest.
//
// alg_temp > 0 draws the positions without replacement in proportion to exp(confidence / alg_temp):
// the n largest of confidence / alg_temp + Gumbel noise, which has that law. docs/samplers.md lists
// what `exact` changes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dllm_sdk/presets_abi.h"
#include "dllm_sdk/sampler.hpp"
#include "time_schedule.hpp"

namespace dream {
namespace {

using dllm::sdk::Canvas;
using dllm::sdk::Edits;
using dllm::sdk::Options;
using dllm::sdk::Plan;
using dllm::sdk::Progress;
using dllm::sdk::Stats;

constexpr const char* kAlgorithms[] = {"origin", "maskgit_plus", "topk_margin", "entropy"};

constexpr dllm_option_info kOptions[] = {
    dllm::sdk::integer_option("steps", "0", 0, 1e6, "denoising steps; 0: one per masked position"),
    dllm::sdk::number_option("eps", "0.001", 0, 1, "time at which the schedule ends",
                             DLLM_OPTION_MINIMUM_EXCLUSIVE | DLLM_OPTION_MAXIMUM_EXCLUSIVE),
    dllm::sdk::choice_option("algorithm", "entropy", kAlgorithms,
                             "how positions are chosen: by chance, or the most certain first"),
    dllm::sdk::number_option("temperature", "0", 0, 1e6,
                             "of the candidate token; 0: the most likely"),
    dllm::sdk::number_option("top_p", "1", 0, 1,
                             "keep the likeliest tokens up to this probability mass; 1: off",
                             DLLM_OPTION_MINIMUM_EXCLUSIVE),
    dllm::sdk::integer_option("top_k", "0", 0, 2147483647.0, "keep the k likeliest tokens; 0: off"),
    dllm::sdk::number_option("alg_temp", "0", 0, 1e6,
                             "randomness in choosing positions by confidence; 0: none"),
    dllm::sdk::boolean_option("exact", "false",
                              "keep the reference's defects (docs/samplers.md lists them)"),
};

// Dream, the call in its README (generation_config).
constexpr dllm_preset_value kReference[] = {
    {"steps", "512"},  {"algorithm", "origin"}, {"eps", "0.001"}, {"temperature", "0"},
    {"alg_temp", "0"}, {"top_p", "1"},          {"top_k", "0"}};
constexpr dllm_preset kPresets[] = {
    {"reference", "the defaults of the original code", kReference, std::size(kReference), 0}};
// llama.cpp's `--diffusion-algorithm` (examples/diffusion).
constexpr dllm_option_alias kAliases[] = {{"algorithm", "0", "algorithm", "origin"},
                                          {"algorithm", "1", "algorithm", "entropy"},
                                          {"algorithm", "2", "algorithm", "topk_margin"},
                                          {"algorithm", "4", "algorithm", "maskgit_plus"}};
constexpr dllm_presets_v1 kPresetTable = {
    sizeof(dllm_presets_v1), std::size(kPresets), kPresets, kAliases, std::size(kAliases), 0};

enum class Algorithm : std::uint8_t { origin, maskgit_plus, topk_margin, entropy };

Algorithm parse_algorithm(const std::string& name) {
  if (name == "origin") return Algorithm::origin;
  if (name == "maskgit_plus") return Algorithm::maskgit_plus;
  if (name == "topk_margin") return Algorithm::topk_margin;
  return Algorithm::entropy;
}

struct Settings {
  std::uint32_t steps = 0;
  float eps = 0;
  Algorithm algorithm = Algorithm::entropy;
  float temperature = 0;
  float top_p = 1;
  std::uint32_t top_k = 0;
  double alg_temp = 0;
  bool exact = false;
  std::int32_t mask_id = -1;
};

Settings read_settings(const Options& options, const dllm_model_facts& facts) {
  Settings settings;
  settings.steps = static_cast<std::uint32_t>(options.integer("steps"));
  settings.eps = static_cast<float>(options.number("eps"));
  settings.algorithm = parse_algorithm(options.text("algorithm"));
  settings.temperature = dllm::sdk::plan_temperature(options.number("temperature"));
  // A positive number below float's range must not become 0, which no plan may carry.
  settings.top_p =
      std::max(static_cast<float>(options.number("top_p")), std::numeric_limits<float>::min());
  settings.top_k = static_cast<std::uint32_t>(options.integer("top_k"));
  settings.alg_temp = options.number("alg_temp");
  settings.exact = options.boolean("exact");
  settings.mask_id = facts.mask_id;
  if (settings.algorithm == Algorithm::origin && settings.alg_temp > 0) {
    throw dllm::sdk::OptionError(
        "alg_temp acts on a confidence, which algorithm origin does not use. Fix: leave alg_temp "
        "at 0, or choose maskgit_plus, topk_margin or entropy");
  }
  return settings;
}

class DreamRun final : public dllm::sdk::Run {
 public:
  DreamRun(const Settings& settings, const Canvas& canvas, std::uint64_t seed)
      : settings_(settings), seed_(seed) {
    const auto open = static_cast<std::uint32_t>(canvas.open_positions().size());
    if (open != 0) n_steps_ = settings.steps != 0 ? settings.steps : open;
  }

  void plan(const Canvas& canvas, Plan& plan) const override {
    if (index_ == n_steps_) return;
    std::vector<std::uint32_t> positions = candidates(canvas);
    const auto n = static_cast<std::uint32_t>(positions.size());
    if (count_of(n) == 0) return;
    plan.positions = std::move(positions);
    plan.want = wanted();
    plan.domain = DLLM_DOMAIN_FILTERED;
    plan.temperature = settings_.temperature;
    plan.top_p = settings_.top_p;
    plan.top_k = settings_.top_k;
    plan.allow_all = settings_.exact;
  }

  Progress apply(const Canvas& canvas, const Stats& stats, Edits& edits) override {
    if (index_ == n_steps_) return Progress::finished;
    std::vector<double> scores;
    scores.reserve(stats.rows());
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      scores.push_back(score(stats, row, canvas.step()));
    }
    for (const std::uint32_t row : dllm::sdk::largest(scores, count_of(stats.rows()))) {
      // Only `exact` can meet the mask as a candidate: the position stays masked.
      if (stats.sampled(row) == settings_.mask_id) continue;
      edits.commit(stats.position(row), stats.sampled(row), confidence(stats, row));
    }
    ++index_;
    const bool filled = canvas.open_positions().size() == edits.size();
    return filled || index_ == n_steps_ ? Progress::finished : Progress::running;
  }

 private:
  double transfer_draw(std::uint32_t step, std::uint32_t position) const {
    return dllm_philox_uniform(seed_, step, position, 0, DLLM_DRAW_TRANSFER);
  }

  // Rows to score. origin draws each position independently, before it sees any logits.
  std::vector<std::uint32_t> candidates(const Canvas& canvas) const {
    std::vector<std::uint32_t> positions = canvas.open_positions();
    if (settings_.algorithm != Algorithm::origin) return positions;
    const double share = transfer_share(index_, n_steps_, settings_.eps);
    std::vector<std::uint32_t> drawn;
    for (const std::uint32_t position : positions) {
      if (transfer_draw(canvas.step(), position) < share) drawn.push_back(position);
    }
    return drawn;
  }

  // How many of the scored rows are committed.
  std::uint32_t count_of(std::uint32_t scored) const {
    if (settings_.algorithm == Algorithm::origin) return scored;
    return transfer_count(scored, index_, n_steps_, settings_.eps);
  }

  std::uint32_t wanted() const {
    switch (settings_.algorithm) {
      case Algorithm::topk_margin:
        return DLLM_STAT_SAMPLED | DLLM_STAT_TOP2;
      case Algorithm::entropy:
        return DLLM_STAT_SAMPLED | DLLM_STAT_ENTROPY;
      case Algorithm::origin:
      case Algorithm::maskgit_plus:
        break;
    }
    return DLLM_STAT_SAMPLED;
  }

  double confidence(const Stats& stats, std::uint32_t row) const {
    switch (settings_.algorithm) {
      case Algorithm::topk_margin:
        return static_cast<double>(stats.top1_prob(row)) -
               static_cast<double>(stats.top2_prob(row));
      case Algorithm::entropy:
        return -static_cast<double>(stats.entropy(row));
      case Algorithm::origin:
      case Algorithm::maskgit_plus:
        break;
    }
    return static_cast<double>(stats.sampled_prob(row));
  }

  double score(const Stats& stats, std::uint32_t row, std::uint32_t step) const {
    if (settings_.alg_temp == 0) return confidence(stats, row);
    const double gumbel = -std::log(-std::log(transfer_draw(step, stats.position(row))));
    return confidence(stats, row) / settings_.alg_temp + gumbel;
  }

  const Settings& settings_;  // the sampler outlives its runs
  std::uint64_t seed_;
  std::uint32_t n_steps_ = 0;
  std::uint32_t index_ = 0;  // rounds done
};

class DreamSampler final : public dllm::sdk::Sampler {
 public:
  DreamSampler(const Options& options, const dllm_model_facts& facts)
      : settings_(read_settings(options, facts)) {}

  std::unique_ptr<dllm::sdk::Run> start(const Canvas& canvas, std::uint64_t seed) const override {
    return std::make_unique<DreamRun>(settings_, canvas, seed);
  }

  static const void* extension(const char* name) {
    return std::strcmp(name, DLLM_EXTENSION_PRESETS) == 0 ? &kPresetTable : nullptr;
  }

 private:
  Settings settings_;
};

}  // namespace
}  // namespace dream

DLLM_SAMPLER_PLUGIN("dream", "1.0.0",
                    "Dream: a falling time schedule, most certain positions first",
                    dream::DreamSampler, dream::kOptions)

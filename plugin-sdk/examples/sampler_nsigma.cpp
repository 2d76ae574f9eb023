// Top-n-sigma (Tang et al., "Top-nσ: Not All Logits Are You Need", 2024): candidates are the tokens
// whose logit lies within n standard deviations, taken over the whole vocabulary, of the largest.
// No statistic says that deviation, so this rule takes the whole logits: the extension
// "dllm.raw_logits/1". The most probable candidates are committed first.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dllm_sdk/sampler.hpp"

namespace {

using namespace dllm::sdk;

constexpr dllm_option_info kOptions[] = {
    number_option("n", "1", 0, 100, "deviations below the largest logit that still count"),
    number_option("temperature", "0", 0, 1e6, "of the draw among them; 0: the most likely"),
    integer_option("per_step", "2", 1, 1e6, "positions committed a step"),
};

struct Settings {
  double n;
  double temperature;
  std::size_t per_step;
  std::int32_t mask_id;
  std::uint32_t n_tokens;
};

struct Candidate {
  std::int32_t token = -1;
  double probability = 0;
};

class NSigmaRun final : public Run {
 public:
  NSigmaRun(const Settings& settings, std::uint64_t seed) : settings_(settings), seed_(seed) {}

  // No statistics wanted: everything is computed from the logits.
  void plan(const Canvas& canvas, Plan& plan) const override {
    plan.positions = canvas.open_positions();
  }

  void take_logits(const Canvas& canvas, const Logits& logits) override {
    candidates_.clear();
    for (std::uint32_t row = 0; row < logits.rows(); ++row) {
      candidates_.push_back(choose(logits.row(row), canvas.step(), logits.position(row)));
    }
  }

  Progress apply(const Canvas&, const Stats& stats, Edits& edits) override {
    std::vector<double> confidence(stats.rows());
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      confidence[row] = candidates_[row].probability;
    }
    for (const std::uint32_t row : largest(confidence, settings_.per_step)) {
      edits.commit(stats.position(row), candidates_[row].token, confidence[row]);
    }
    return edits.size() == stats.rows() ? Progress::finished : Progress::running;
  }

 private:
  // Raw logits have nothing suppressed: the mask and ids without a token are ours to leave out.
  bool counts(std::int32_t id, float logit) const {
    return id != settings_.mask_id && !(logit == -std::numeric_limits<float>::infinity());
  }

  [[noreturn]] static void refuse(std::uint32_t position, const char* fact) {
    throw std::runtime_error("position " + std::to_string(position) + " " + fact);
  }

  Candidate choose(const float* logits, std::uint32_t step, std::uint32_t position) const {
    double sum = 0, squares = 0, most = -std::numeric_limits<double>::infinity();
    std::size_t count = 0;
    const auto n_tokens = static_cast<std::int32_t>(settings_.n_tokens);
    for (std::int32_t id = 0; id < n_tokens; ++id) {
      if (!counts(id, logits[id])) continue;
      if (!std::isfinite(logits[id])) refuse(position, "has a logit that is not finite");
      const double l = logits[id];
      sum += l, squares += l * l, ++count;
      most = std::max(most, l);
    }
    if (count == 0) refuse(position, "has no token: every logit is -inf");
    const double mean = sum / static_cast<double>(count);
    const double deviation =
        std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean));

    const double least = most - settings_.n * deviation;
    Candidate best;
    double best_value = 0, kept = 0;
    for (std::int32_t id = 0; id < n_tokens; ++id) {
      if (!counts(id, logits[id]) || logits[id] < least) continue;
      const double l = logits[id];
      kept += std::exp(l - most);
      const double value = l + noise(step, position, id);
      if (best.token >= 0 && value <= best_value) continue;
      best = {id, std::exp(l - most)};
      best_value = value;
    }
    best.probability /= kept;
    return best;
  }

  // Gumbel noise, so that the largest sum is a draw; on the SDK's counters, so that runs repeat.
  double noise(std::uint32_t step, std::uint32_t position, std::int32_t id) const {
    if (settings_.temperature == 0) return 0;
    const double u = dllm_philox_uniform(seed_, step, position, static_cast<std::uint32_t>(id),
                                         DLLM_DRAW_SAMPLER);
    return -settings_.temperature * std::log(-std::log(u));
  }

  const Settings& settings_;  // the sampler outlives its runs
  std::uint64_t seed_;
  std::vector<Candidate> candidates_;
};

class NSigmaSampler final : public Sampler {
 public:
  NSigmaSampler(const Options& options, const dllm_model_facts& facts)
      : settings_{options.number("n"), options.number("temperature"),
                  static_cast<std::size_t>(options.integer("per_step")), facts.mask_id,
                  facts.n_tokens} {}

  std::unique_ptr<Run> start(const Canvas&, std::uint64_t seed) const override {
    return std::make_unique<NSigmaRun>(settings_, seed);
  }

  static const void* extension(const char* name) {
    return std::strcmp(name, DLLM_EXTENSION_RAW_LOGITS) == 0 ? &kRawLogitsTable : nullptr;
  }

 private:
  Settings settings_;
};

}  // namespace

DLLM_SAMPLER_PLUGIN("nsigma", "1.0.0", "tokens within n deviations of the largest logit",
                    NSigmaSampler, kOptions)

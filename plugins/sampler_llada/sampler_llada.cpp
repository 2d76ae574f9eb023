// LLaDA's decoding rule (LLaDA generate.py): masked positions are filled block by block, in each
// step those of the highest confidence, or random ones.
//
// Blocks are made of the masked positions in their order, wherever they lie: block k holds the k-th
// block_length of them. For a prompt followed by masks that is the original's layout. Within a
// block of m masked positions and s steps, step i commits even_share(m, s, i). Positions behind the
// block wait; masked ones before it compete. docs/samplers.md lists what `exact` changes.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "block_schedule.hpp"
#include "dllm_sdk/presets_abi.h"
#include "dllm_sdk/sampler.hpp"

namespace llada {
namespace {

using dllm::sdk::Canvas;
using dllm::sdk::Edits;
using dllm::sdk::OptionError;
using dllm::sdk::Options;
using dllm::sdk::Plan;
using dllm::sdk::Progress;
using dllm::sdk::Stats;

constexpr const char* kRemasking[] = {"low_confidence", "random"};

constexpr dllm_option_info kOptions[] = {
    dllm::sdk::integer_option("steps", "0", 0, 1e6,
                              "denoising steps over all blocks; 0: one per masked position"),
    dllm::sdk::integer_option("block_length", "0", 0, 1e6,
                              "masked positions per block, filled in order; 0: all, at most 32"),
    dllm::sdk::number_option("temperature", "0", 0, 1e6,
                             "Gumbel noise on the candidate token; 0: the most likely"),
    dllm::sdk::number_option("cfg_scale", "0", 0, 1e6,
                             "guidance away from the answer without prompt; 0: off"),
    dllm::sdk::choice_option("remasking", "low_confidence", kRemasking,
                             "which positions stay masked: the least confident, or random ones"),
    dllm::sdk::boolean_option("logits_eos_inf", "false", "never produce the end-of-text token"),
    dllm::sdk::boolean_option("confidence_eos_eot_inf", "false",
                              "commit end-of-text and end-of-turn tokens last"),
    dllm::sdk::boolean_option("exact", "false",
                              "keep the reference's defects (docs/samplers.md lists them)"),
};

// LLaDA generate.py, the defaults of generate().
constexpr dllm_preset_value kReference[] = {{"steps", "128"},
                                            {"block_length", "128"},
                                            {"temperature", "0"},
                                            {"cfg_scale", "0"},
                                            {"remasking", "low_confidence"}};
constexpr dllm_preset kPresets[] = {
    {"reference", "the defaults of the original code", kReference, std::size(kReference), 0}};
// llama.cpp's `--diffusion-algorithm` (examples/diffusion).
constexpr dllm_option_alias kAliases[] = {{"algorithm", "3", "remasking", "random"},
                                          {"algorithm", "4", "remasking", "low_confidence"}};
constexpr dllm_presets_v1 kPresetTable = {
    sizeof(dllm_presets_v1), std::size(kPresets), kPresets, kAliases, std::size(kAliases), 0};

struct Settings {
  std::uint32_t steps = 0;
  std::uint32_t block_length = 0;
  float temperature = 0;
  float cfg_scale = 0;
  bool random = false;
  bool exact = false;
  std::int32_t mask_id = -1;
  std::vector<std::int32_t> suppress_both;
  std::vector<std::int32_t> suppress_confidence;
};

std::int32_t require_id(std::int32_t id, const char* option, const char* what) {
  if (id < 0) {
    throw OptionError(std::string("option ") + option + " needs an " + what +
                      " id, which this model's vocabulary does not name. Fix: leave " + option +
                      " off");
  }
  return id;
}

// The reference writes `noised[EOS] = logits[EOT] = -inf` and takes the softmax of `logits`: with
// temperature 0 both names are one tensor, so both ids vanish; else only EOT does. The corrected
// rule: both, at every temperature.
std::vector<std::int32_t> confidence_ids(const dllm_model_facts& facts, bool only_eot) {
  const std::int32_t eot = require_id(facts.eot_id, "confidence_eos_eot_inf", "end-of-turn");
  const std::int32_t eos = require_id(facts.eos_id, "confidence_eos_eot_inf", "end-of-text");
  if (only_eot || eos == eot) return {eot};
  return {eos, eot};
}

Settings read_settings(const Options& options, const dllm_model_facts& facts) {
  Settings settings;
  settings.steps = static_cast<std::uint32_t>(options.integer("steps"));
  settings.block_length = static_cast<std::uint32_t>(options.integer("block_length"));
  settings.temperature = dllm::sdk::plan_temperature(options.number("temperature"));
  settings.cfg_scale = static_cast<float>(options.number("cfg_scale"));
  settings.random = options.text("remasking") == "random";
  settings.exact = options.boolean("exact");
  settings.mask_id = facts.mask_id;
  if (options.boolean("logits_eos_inf")) {
    settings.suppress_both = {require_id(facts.eos_id, "logits_eos_inf", "end-of-text")};
  }
  if (options.boolean("confidence_eos_eot_inf")) {
    settings.suppress_confidence =
        confidence_ids(facts, settings.exact && settings.temperature > 0);
  }
  return settings;
}

class LladaRun final : public dllm::sdk::Run {
 public:
  LladaRun(const Settings& settings, const Canvas& canvas, std::uint64_t seed)
      : settings_(settings), seed_(seed) {
    const std::vector<std::uint32_t> open = canvas.open_positions();
    const auto n = static_cast<std::uint32_t>(open.size());
    if (n == 0) return;
    n_steps_ = settings.steps != 0 ? settings.steps : n;
    const std::uint32_t length =
        settings.block_length != 0 ? settings.block_length : std::min(n, 32u);
    n_blocks_ = block_count(n, length);
    check_fit(n, length);
    for (std::uint32_t k = 1; k < n_blocks_; ++k) block_ends_.push_back(open[k * length - 1] + 1);
    block_ends_.push_back(canvas.size());
  }

  void plan(const Canvas& canvas, Plan& plan) const override {
    if (block_ == n_blocks_) return;
    std::vector<std::uint32_t> candidates = canvas.open_positions(0, block_ends_[block_]);
    const std::uint32_t count = commit_count(canvas, candidates);
    if (count == 0) return;
    // A random choice does not depend on the logits: only the chosen rows need scoring.
    plan.positions = settings_.random ? draw(candidates, count, canvas.step()) : candidates;
    plan.want = DLLM_STAT_SAMPLED;
    plan.temperature = settings_.temperature;
    plan.guidance_scale = settings_.cfg_scale;
    plan.allow_all = settings_.exact;
    plan.suppress_both = settings_.suppress_both;
    plan.suppress_confidence = settings_.suppress_confidence;
  }

  Progress apply(const Canvas& canvas, const Stats& stats, Edits& edits) override {
    if (block_ == n_blocks_) return Progress::finished;
    const std::vector<std::uint32_t> candidates = canvas.open_positions(0, block_ends_[block_]);
    const std::uint32_t count = commit_count(canvas, candidates);
    commit(canvas, stats, count, edits);
    advance(canvas);
    const bool filled = canvas.open_positions().size() == edits.size();
    return filled || block_ == n_blocks_ ? Progress::finished : Progress::running;
  }

 private:
  void check_fit(std::uint32_t n, std::uint32_t length) const {
    const std::string blocks = std::to_string(n_blocks_) + " blocks (" + std::to_string(n) +
                               " masked positions, block_length " + std::to_string(length) + ")";
    if (n_steps_ < n_blocks_) {
      throw OptionError("steps " + std::to_string(n_steps_) + " is less than the " + blocks +
                        ": each block needs a step. Fix: raise steps to " +
                        std::to_string(n_blocks_) + " or raise block_length");
    }
    if (!settings_.exact) return;
    if (n % length != 0) {
      throw OptionError(std::to_string(n) + " masked positions are no multiple of block_length " +
                        std::to_string(length) + ", which exact requires as the reference does. " +
                        "Fix: change one of them, or leave exact off for a short last block");
    }
    if (n_steps_ % n_blocks_ != 0) {
      throw OptionError(
          "steps " + std::to_string(n_steps_) + " is no multiple of the " + blocks +
          ", which exact requires as the reference does. Fix: change steps, or leave " +
          "exact off to spread them");
    }
  }

  // Positions to commit this step. The schedule is fixed by the masks at the block's start: those
  // of the block; in the corrected rule also what lies masked before it, and the last step takes
  // all.
  std::uint32_t commit_count(const Canvas& canvas,
                             const std::vector<std::uint32_t>& candidates) const {
    const auto available = static_cast<std::uint32_t>(candidates.size());
    const std::uint32_t steps = even_share(n_steps_, n_blocks_, block_);
    if (!settings_.exact && step_in_block_ + 1 == steps) return available;
    const std::uint32_t masked = masked_at_block_start(canvas, available);
    return std::min(even_share(masked, steps, step_in_block_), available);
  }

  std::uint32_t masked_at_block_start(const Canvas& canvas, std::uint32_t available) const {
    if (step_in_block_ != 0) return block_masked_;
    if (!settings_.exact) return available;
    const std::uint32_t begin = block_ == 0 ? 0 : block_ends_[block_ - 1];
    return static_cast<std::uint32_t>(canvas.open_positions(begin, block_ends_[block_]).size());
  }

  double order_draw(std::uint32_t step, std::uint32_t position) const {
    return dllm_philox_uniform(seed_, step, position, 0, DLLM_DRAW_ORDER);
  }

  std::vector<std::uint32_t> draw(const std::vector<std::uint32_t>& candidates, std::uint32_t count,
                                  std::uint32_t step) const {
    std::vector<double> scores;
    scores.reserve(candidates.size());
    for (const std::uint32_t position : candidates) scores.push_back(order_draw(step, position));
    std::vector<std::uint32_t> chosen;
    for (const std::uint32_t i : dllm::sdk::largest(scores, count)) chosen.push_back(candidates[i]);
    return chosen;
  }

  void commit(const Canvas& canvas, const Stats& stats, std::uint32_t count, Edits& edits) const {
    std::vector<double> scores;
    scores.reserve(stats.rows());
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      scores.push_back(settings_.random ? order_draw(canvas.step(), stats.position(row))
                                        : static_cast<double>(stats.sampled_prob(row)));
    }
    for (const std::uint32_t row : dllm::sdk::largest(scores, count)) {
      // Only `exact` can meet the mask as a candidate: the position stays masked.
      if (stats.sampled(row) == settings_.mask_id) continue;
      edits.commit(stats.position(row), stats.sampled(row), scores[row]);
    }
  }

  void advance(const Canvas& canvas) {
    if (step_in_block_ == 0) {
      const auto open = canvas.open_positions(0, block_ends_[block_]);
      block_masked_ = masked_at_block_start(canvas, static_cast<std::uint32_t>(open.size()));
    }
    if (++step_in_block_ < even_share(n_steps_, n_blocks_, block_)) return;
    ++block_;
    step_in_block_ = 0;
  }

  const Settings& settings_;  // the sampler outlives its runs
  std::uint64_t seed_;
  std::uint32_t n_steps_ = 0;
  std::uint32_t n_blocks_ = 0;
  std::vector<std::uint32_t> block_ends_;  // position behind each; of the last the canvas' end
  std::uint32_t block_ = 0;
  std::uint32_t step_in_block_ = 0;
  std::uint32_t block_masked_ = 0;  // masked positions at the start of the block under way
};

class LladaSampler final : public dllm::sdk::Sampler {
 public:
  LladaSampler(const Options& options, const dllm_model_facts& facts)
      : settings_(read_settings(options, facts)) {}

  std::unique_ptr<dllm::sdk::Run> start(const Canvas& canvas, std::uint64_t seed) const override {
    return std::make_unique<LladaRun>(settings_, canvas, seed);
  }

  static const void* extension(const char* name) {
    return std::strcmp(name, DLLM_EXTENSION_PRESETS) == 0 ? &kPresetTable : nullptr;
  }

 private:
  Settings settings_;
};

}  // namespace
}  // namespace llada

DLLM_SAMPLER_PLUGIN("llada", "1.0.0", "LLaDA: blocks, most confident positions first",
                    llada::LladaSampler, llada::kOptions)

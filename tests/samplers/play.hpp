// Plays a sampler to its end on logits of the test's choosing and records every round.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugin_host.hpp"

namespace dllm::test {

struct Round {
  std::vector<std::uint32_t> asked;      ///< positions of the plan
  std::vector<std::uint32_t> committed;  ///< ascending
};

struct Played {
  std::vector<Round> rounds;
  HostCanvas canvas;
  std::uint32_t forwards = 0;
};

using LogitsOf = std::function<std::vector<double>(std::uint32_t position)>;

inline const dllm_sampler_v1& plugin(const std::string& name) {
  return *load_sampler(std::string(DLLM_TEST_PLUGINS) + "/sampler_" + name + ".so");
}

constexpr std::int32_t kMaskId = 3;
constexpr std::uint32_t kVocab = 8;

/// `prompt` fixed positions, then `masked` masked ones.
inline HostCanvas prompt_and_masks(std::uint32_t prompt, std::uint32_t masked) {
  std::vector<std::int32_t> ids(prompt, 1);
  ids.resize(prompt + masked, kMaskId);
  std::vector<std::uint8_t> editable(prompt, 0);
  editable.resize(prompt + masked, 1);
  return HostCanvas(ids, editable, kMaskId);
}

/// The same for every position: token 5 leads.
inline std::vector<double> same_logits(std::uint32_t) { return {0, 0, 0, 0, 0, 2, 0, 1}; }

/// Surest at the highest position: confidence falls towards position 0.
inline std::vector<double> rising_logits(std::uint32_t position) {
  std::vector<double> logits(kVocab, 0.0);
  logits[5] = 1.0 + 0.1 * position;
  return logits;
}

/// One round as the engine makes it; true when the run is finished.
inline bool play_round(HostRun& run, HostCanvas& canvas, const dllm_model_facts& facts,
                       std::uint64_t seed, const LogitsOf& logits_of, Round& round) {
  const dllm_plan plan = run.plan(canvas);
  round.asked.assign(plan.positions, plan.positions + plan.n_positions);
  const HostStats stats = answer(plan, facts, seed, canvas.step, logits_of);
  const dllm_edits edits = run.apply(canvas, stats.view());
  for (std::uint32_t i = 0; i < edits.n_edits; ++i) {
    round.committed.push_back(edits.edits[i].position);
  }
  write_edits(canvas, edits, facts.n_tokens);
  return edits.status == DLLM_RUN_FINISHED;
}

inline Played play(const dllm_sampler_v1& table, const Texts& options, HostCanvas canvas,
                   std::uint64_t seed = 1, const LogitsOf& logits_of = same_logits) {
  const dllm_model_facts facts = small_facts(kVocab, kMaskId);
  const HostSampler sampler(table, options, facts);
  HostRun run(sampler, canvas, seed);
  Played played{{}, std::move(canvas), 0};
  for (bool finished = false; !finished;) {
    if (played.rounds.size() > 5000) throw std::runtime_error("no end after 5000 rounds");
    Round round;
    finished = play_round(run, played.canvas, facts, seed, logits_of, round);
    played.forwards += round.asked.empty() ? 0 : 1;
    played.rounds.push_back(std::move(round));
  }
  return played;
}

/// The plugin's refusal, or an empty message when it accepts.
inline PluginFailure refusal(const dllm_sampler_v1& table, const Texts& options,
                             const HostCanvas& canvas) {
  try {
    const HostSampler sampler(table, options, small_facts(kVocab, kMaskId));
    const HostRun run(sampler, canvas, 1);
  } catch (const PluginFailure& failure) {
    return failure;
  }
  return PluginFailure(DLLM_OK, "");
}

inline std::vector<std::uint32_t> counts_of(const Played& played) {
  std::vector<std::uint32_t> counts;
  for (const Round& round : played.rounds) {
    counts.push_back(static_cast<std::uint32_t>(round.committed.size()));
  }
  return counts;
}

}  // namespace dllm::test

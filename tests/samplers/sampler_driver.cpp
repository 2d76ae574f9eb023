// Runs sampler plugins on made-up logits and prints what they commit, for sampler_oracle.py.
//
//   sampler_driver PLUGIN_FOLDER < cases.jsonl > results.jsonl
//
// One case a line: {"sampler", "options": {name: text}, "ids", "editable", "seed", "n_vocab",
// "n_tokens", "mask_id", "eos_id", "eot_id", "logits": {"seed", "levels", "scale", "tie"}}. One
// result a line: {"rounds": [[[position, token], ...], ...], "forwards", "ids"} or {"error",
// "status"}.
//
// A logit is a level (hash mod levels) times the row's own factor, hashed from seed, canvas and
// position / tie: the same canvas gives the same logits, few levels give equal logits within a row,
// tie > 1 gives neighbours equal rows. Other rows differ in factor: were one a permutation of
// another, their confidences would be equal up to the order of summation, and the last bit would
// decide.
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin_host.hpp"

namespace {

using dllm::test::HostCanvas;
using dllm::test::HostRun;
using dllm::test::HostSampler;
using nlohmann::json;

// splitmix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct MadeUpLogits {
  explicit MadeUpLogits(const json& from, std::uint32_t vocab)
      : seed(from.at("seed")),
        levels(from.at("levels")),
        scale(from.at("scale")),
        tie(from.at("tie")),
        n_vocab(vocab) {}

  std::vector<double> row(const std::vector<std::int32_t>& ids, std::uint32_t position) const {
    std::uint64_t hash = mix(seed);
    for (const std::int32_t id : ids) hash = mix(hash ^ static_cast<std::uint64_t>(id));
    hash = mix(hash ^ (position / tie));
    const double spread = scale * (1 + static_cast<double>(hash % 1024) / 1024);
    std::vector<double> logits(n_vocab);
    for (std::uint32_t v = 0; v < n_vocab; ++v) {
      logits[v] = spread * static_cast<double>(mix(hash ^ v) % levels);
    }
    return logits;
  }

  std::uint64_t seed;
  std::uint64_t levels;
  double scale;
  std::uint32_t tie;
  std::uint32_t n_vocab;
};

// The canvas of the unconditional half of a guidance pair: every fixed position masked.
std::vector<std::int32_t> without_prompt(const HostCanvas& canvas, std::int32_t mask_id) {
  std::vector<std::int32_t> ids = canvas.ids;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (canvas.state[i] == DLLM_POSITION_FIXED) ids[i] = mask_id;
  }
  return ids;
}

void check_plan(const dllm_plan& plan, const HostCanvas& canvas) {
  for (std::uint32_t i = 0; i < plan.n_positions; ++i) {
    if (i > 0 && plan.positions[i] <= plan.positions[i - 1]) {
      throw std::runtime_error("positions do not ascend");
    }
    if (canvas.state.at(plan.positions[i]) != DLLM_POSITION_MASKED) {
      throw std::runtime_error("a position is planned that is not masked");
    }
  }
}

json run_case(const json& from, const std::string& folder) {
  const std::uint32_t n_vocab = from.at("n_vocab");
  dllm_model_facts facts = dllm::test::small_facts(n_vocab, from.at("mask_id"));
  facts.n_tokens = from.at("n_tokens");
  facts.eos_id = from.at("eos_id");
  facts.eot_id = from.at("eot_id");
  const std::string name = from.at("sampler");
  const dllm_sampler_v1* table = dllm::test::load_sampler(folder + "/sampler_" + name + ".so");
  const HostSampler sampler(*table, from.at("options").get<dllm::test::Texts>(), facts);
  HostCanvas canvas(from.at("ids"), from.at("editable"), facts.mask_id);
  const std::uint64_t seed = from.at("seed");
  HostRun run(sampler, canvas, seed);
  const MadeUpLogits logits(from.at("logits"), n_vocab);

  json rounds = json::array();
  std::uint32_t forwards = 0;
  for (bool finished = false; !finished;) {
    if (rounds.size() > 10000) throw std::runtime_error("no end after 10000 rounds");
    const dllm_plan plan = run.plan(canvas);
    check_plan(plan, canvas);
    forwards += plan.n_positions > 0 ? 1 : 0;
    const std::vector<std::int32_t> unconditional = without_prompt(canvas, facts.mask_id);
    const auto stats = dllm::test::answer(plan, facts, seed, canvas.step, [&](std::uint32_t at) {
      std::vector<double> row = logits.row(canvas.ids, at);
      if (plan.guidance_scale == 0) return row;
      return dllm::test::oracle_guided(row, logits.row(unconditional, at),
                                       static_cast<double>(plan.guidance_scale));
    });
    const bool allow_all = (plan.flags & DLLM_PLAN_ALLOW_ALL) != 0;
    const dllm_edits edits = run.apply(canvas, stats.view());
    json commits = json::array();
    for (std::uint32_t i = 0; i < edits.n_edits; ++i) {
      commits.push_back({edits.edits[i].position, edits.edits[i].token});
    }
    rounds.push_back(commits);
    finished = edits.status == DLLM_RUN_FINISHED;
    dllm::test::write_edits(canvas, edits, allow_all ? n_vocab : facts.n_tokens);
  }
  return {{"rounds", rounds}, {"forwards", forwards}, {"ids", canvas.ids}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: sampler_driver PLUGIN_FOLDER < cases.jsonl\n";
    return 2;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    json result;
    try {
      result = run_case(json::parse(line), argv[1]);
    } catch (const dllm::test::PluginFailure& failure) {
      result = {{"error", failure.what()}, {"status", failure.status}};
    } catch (const std::exception& failure) {
      result = {{"error", failure.what()}, {"status", -1}};
    }
    std::cout << result.dump() << "\n";
  }
  return 0;
}

// Whole runs over random settings: both samplers, both architectures, the CPU backend, the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>

#include "dllm/engine.hpp"
#include "dllm/gguf.hpp"
#include "dllm/runtime.hpp"
#include "dllm/tokenizer.hpp"
#include "plan_copy.hpp"
#include "property.hpp"

namespace dllm::test {
namespace {

using Settings = std::map<std::string, std::string, std::less<>>;

std::string text(double value) { return std::to_string(value); }
std::string text(std::uint32_t value) { return std::to_string(value); }

Settings random_llada(Property& property, std::uint32_t n) {
  const std::uint32_t block = 1 + property.below(n + 2);
  const std::uint32_t blocks = (n + block - 1) / block;
  return {{"block_length", text(block)},
          {"steps", text(blocks + property.below(2 * n))},
          {"temperature", text(property.one_of({0.0, 0.0, 0.7, 1.3}))},
          {"cfg_scale", text(property.one_of({0.0, 0.0, 1.5}))},
          {"remasking", property.one_of<const char*>({"low_confidence", "random"})}};
}

Settings random_dream(Property& property, std::uint32_t n) {
  const std::string algorithm =
      property.one_of<const char*>({"origin", "maskgit_plus", "topk_margin", "entropy"});
  Settings settings{{"algorithm", algorithm},
                    {"steps", text(1 + property.below(2 * n))},
                    {"temperature", text(property.one_of({0.0, 0.0, 0.7, 1.3}))},
                    {"top_p", text(property.one_of({1.0, 0.8}))},
                    {"top_k", text(property.one_of<std::uint32_t>({0, 5}))}};
  if (algorithm != "origin") settings["alg_temp"] = text(property.one_of({0.0, 0.5}));
  return settings;
}

// Everything a step did to one sequence: (round, position, token).
using History = std::vector<std::vector<std::uint32_t>>;

struct Outcome {
  std::vector<std::int32_t> ids;
  std::uint32_t steps = 0;
  std::uint32_t forwards = 0;
  History history;

  bool operator==(const Outcome&) const = default;
  friend void PrintTo(const Outcome& outcome, std::ostream* out) {
    *out << outcome.steps << " rounds, " << outcome.forwards << " forwards, ids "
         << testing::PrintToString(outcome.ids);
  }
};

// One model on one backend.
class Machine {
 public:
  Machine(const Runtime& runtime, const std::string& arch, const std::string& threads)
      : runtime_(runtime), arch_(arch) {
    const auto file = GgufFile::open(std::string(DLLM_PROPERTY_MODELS) + "/" + arch + ".gguf");
    // As a host application may: oneTBB gets more threads than there are processors, so that 3 and
    // 7 threads are what they say everywhere.
    static const tbb::global_control eight_threads(tbb::global_control::max_allowed_parallelism, 8);
    const BackendFactory& cpu = *runtime.plugins().require(PluginKind::backend, "cpu").backend;
    backend_ =
        cpu.create(check_options(cpu.options(), {{"threads", threads}}, "test"), runtime.log());
    EXPECT_EQ(std::to_string(backend_->device().threads), threads);
    model_ = runtime.plugins().require_model(arch).model->load(file, *backend_, runtime.log(), {});
    tokenizer_.emplace(Tokenizer::from_gguf(*file, {}));
    facts_ = model_facts(model_->info(), *tokenizer_);
  }

  SequenceRequest request(Property& property, std::uint32_t prompt, std::uint32_t n) const {
    const PluginRecord& record = runtime_.plugins().require(PluginKind::sampler, arch_);
    const Settings settings =
        arch_ == "llada" ? random_llada(property, n) : random_dream(property, n);
    std::vector<std::int32_t> ids(prompt);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(property.below(250));
    SequenceRequest request = answer_request(std::move(ids), n, facts_);
    request.sampler = std::make_shared<Sampler>(
        record.library, record.id, record.sampler, record.options,
        check_options(record.options, settings, testing::PrintToString(settings)), facts_);
    request.seed = property.random()();
    request.ignore_eos = true;
    return request;
  }

  // All of them together. `reports` sees every step.
  std::vector<Outcome> run(const std::vector<SequenceRequest>& requests,
                           const std::function<void(const StepReport&)>& reports = {}) {
    EngineLimits limits;
    for (const SequenceRequest& request : requests) {
      ++limits.max_sequences;
      limits.max_sequence_length =
          std::max(limits.max_sequence_length, static_cast<std::uint32_t>(request.ids.size()));
      limits.max_tokens += check_request(request, model_->info());
    }
    limits.first_tokens = limits.max_tokens / 2;  // the first step takes the rest
    Engine engine(*model_, limits);
    std::map<SequenceId, std::size_t> place;
    for (const SequenceRequest& request : requests) {
      const std::size_t next = place.size();
      place[engine.add(request)] = next;
    }
    std::vector<Outcome> outcomes(requests.size());
    while (engine.running()) {
      const StepReport& report = engine.step();
      if (reports) reports(report);
      for (const SequenceStep& step : report.sequences) {
        for (const dllm_edit& edit : report.edits_of(step)) {
          outcomes[place.at(step.id)].history.push_back(
              {step.step, edit.position, static_cast<std::uint32_t>(edit.token)});
        }
      }
    }
    for (const auto& [id, at] : place) {
      const SequenceResult result = engine.result(id);
      EXPECT_EQ(result.status, SequenceStatus::finished)
          << (result.error != nullptr ? result.error->what() : "");
      outcomes[at].ids.assign(result.ids.begin(), result.ids.end());
      outcomes[at].steps = result.steps;
      outcomes[at].forwards = result.forwards;
    }
    return outcomes;
  }

  std::int32_t mask_id() const { return facts_.mask_id; }

 private:
  const Runtime& runtime_;
  std::string arch_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::optional<Tokenizer> tokenizer_;
  dllm_model_facts facts_{};
};

class RunProperties : public testing::Test {
 protected:
  static std::vector<std::string> architectures() { return {"llada", "dream"}; }
  const Runtime runtime_{{.sink = {}, .plugin_folders = {DLLM_TEST_PLUGINS}}};
};

// Prompts of 1, 7 and 40 tokens, each with its own length, settings and seed.
TEST_F(RunProperties, ABatchEqualsItsSingleRuns) {
  for (const std::string& arch : architectures()) {
    Property property("a batch equals its single runs, " + arch, 31, 12);
    Machine machine(runtime_, arch, "2");
    for (int round = 0; round < property.rounds(); ++round) {
      std::vector<SequenceRequest> requests;
      for (const std::uint32_t prompt : {1U, 7U, 40U}) {
        requests.push_back(machine.request(property, prompt, 1 + property.below(12)));
      }
      const std::vector<Outcome> together = machine.run(requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        ASSERT_EQ(together[i], machine.run({requests[i]})[0])
            << arch << ", round " << round << ", sequence " << i;
        EXPECT_THAT(together[i].ids, testing::Not(testing::Contains(machine.mask_id())));
      }
    }
  }
}

TEST_F(RunProperties, ThreadsChangeNoTokenAndNoRound) {
  for (const std::string& arch : architectures()) {
    Property property("threads change nothing, " + arch, 32, 12);
    Machine one(runtime_, arch, "1");
    std::vector<std::unique_ptr<Machine>> others;
    for (const char* threads : {"2", "3", "7"}) {
      others.push_back(std::make_unique<Machine>(runtime_, arch, threads));
    }
    for (int round = 0; round < property.rounds(); ++round) {
      const SequenceRequest request =
          one.request(property, property.below(30), 1 + property.below(20));
      const Outcome want = one.run({request})[0];
      for (const auto& other : others) {
        ASSERT_EQ(other->run({request})[0], want) << arch << ", round " << round;
      }
    }
  }
}

// Every round of a run is planned twice more by a second run that follows it.
TEST_F(RunProperties, PlanningTwiceGivesTheSamePlan) {
  for (const std::string& arch : architectures()) {
    Property property("planning twice gives the same, " + arch, 34, 60);
    Machine machine(runtime_, arch, "2");
    std::size_t rounds = 0;
    for (int round = 0; round < property.rounds(); ++round) {
      SequenceRequest request =
          machine.request(property, property.below(9), 1 + property.below(12));
      std::optional<SamplerRun> shadow;
      request.recorder = [&, sampler = request.sampler,
                          seed = request.seed](const SequenceRound& seen) {
        if (!shadow) shadow.emplace(sampler->start(seen.canvas, seed));
        const PlanCopy first(shadow->plan(seen.canvas)), second(shadow->plan(seen.canvas));
        EXPECT_EQ(first, second) << arch << ", round " << round;
        EXPECT_EQ(first, PlanCopy(seen.plan)) << arch << ", round " << round;
        shadow->apply(seen.canvas, seen.answers);
        ++rounds;
      };
      machine.run({request});
    }
    EXPECT_GT(rounds, static_cast<std::size_t>(property.rounds()));
  }
}

// All the rows of the forwards of a batch are those of its single runs, no more.
TEST_F(RunProperties, FinishedSequencesStopCosting) {
  for (const std::string& arch : architectures()) {
    Property property("finished sequences stop costing, " + arch, 33, 8);
    Machine machine(runtime_, arch, "2");
    for (int round = 0; round < property.rounds(); ++round) {
      std::vector<SequenceRequest> requests;
      for (const std::uint32_t prompt : {1U, 7U, 40U}) {
        requests.push_back(machine.request(property, prompt, 1 + property.below(12)));
      }
      std::uint64_t tokens = 0;
      machine.run(requests, [&](const StepReport& report) { tokens += report.n_tokens; });
      std::uint64_t alone = 0;
      for (const SequenceRequest& request : requests) {
        machine.run({request}, [&](const StepReport& report) { alone += report.n_tokens; });
      }
      ASSERT_EQ(tokens, alone) << arch << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace dllm::test

// dllm_sdk/sampler.hpp: what stops at the boundary, and what a rule can rely on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dllm_sdk/sampler.hpp"
#include "play.hpp"

namespace {

using dllm::sdk::Canvas;
using dllm::sdk::Edits;
using dllm::sdk::Options;
using dllm::sdk::Plan;
using dllm::sdk::Progress;
using dllm::sdk::Stats;
using dllm::test::HostCanvas;
using dllm::test::HostRun;
using dllm::test::HostSampler;
using dllm::test::HostStats;
using dllm::test::kMaskId;
using dllm::test::kVocab;
using dllm::test::PluginFailure;
using dllm::test::prompt_and_masks;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kFaults[] = {"none",  "option", "create", "foreign",  "undeclared",
                                   "start", "plan",   "apply",  "unwanted", "no_run"};
constexpr dllm_option_info kOptions[] = {
    dllm::sdk::choice_option("fault", "none", kFaults, "where to fail"),
    dllm::sdk::text_option("note", "", "any text"),
};

struct ScriptedRun : dllm::sdk::Run {
  explicit ScriptedRun(std::string where) : fault(std::move(where)) {}
  void plan(const Canvas& canvas, Plan& plan) const override {
    if (fault == "plan") throw std::runtime_error("fault in plan");
    plan.positions = canvas.open_positions();
    plan.want = DLLM_STAT_SAMPLED | DLLM_STAT_ENTROPY;
  }
  Progress apply(const Canvas&, const Stats& stats, Edits& edits) override {
    if (fault == "apply") throw std::runtime_error("fault in apply");
    if (fault == "unwanted") (void)stats.top2_prob(0);
    for (std::uint32_t row = 0; row < stats.rows(); ++row) {
      edits.commit(stats.position(row), stats.sampled(row), stats.sampled_prob(row));
    }
    return Progress::finished;
  }
  std::string fault;
};

struct ScriptedSampler final : dllm::sdk::Sampler {
  ScriptedSampler(const Options& options, const dllm_model_facts&) : fault(options.text("fault")) {
    if (fault == "option") throw dllm::sdk::OptionError("fault of the user");
    if (fault == "create") throw std::runtime_error("fault in create");
    if (fault == "foreign") throw 42;
    if (fault == "undeclared") options.number("no_such_option");
  }
  std::unique_ptr<dllm::sdk::Run> start(const Canvas&, std::uint64_t) const override {
    if (fault == "start") throw dllm::sdk::OptionError("fault in start");
    if (fault == "no_run") return nullptr;
    return std::make_unique<ScriptedRun>(fault);
  }
  std::string fault;
};

constexpr dllm_sampler_v1 kTable = dllm::sdk::make_table<ScriptedSampler>(kOptions);

// Status and message of a whole run with the fault.
PluginFailure failure_of(const char* fault) {
  try {
    const auto facts = dllm::test::small_facts(kVocab, kMaskId);
    const HostSampler sampler(kTable, {{"fault", fault}}, facts);
    HostCanvas canvas = prompt_and_masks(1, 2);
    HostRun run(sampler, canvas, 1);
    dllm::test::Round round;
    dllm::test::play_round(run, canvas, facts, 1, dllm::test::same_logits, round);
  } catch (const PluginFailure& failure) {
    return failure;
  }
  return PluginFailure(DLLM_OK, "");
}

TEST(SdkBoundary, AWorkingRuleRuns) { EXPECT_EQ(failure_of("none").status, DLLM_OK); }

TEST(SdkBoundary, ExceptionsBecomeStatusAndMessage) {
  for (const char* fault : {"option", "start"}) {
    EXPECT_EQ(failure_of(fault).status, DLLM_BAD_OPTION) << fault;
    EXPECT_THAT(failure_of(fault).what(), HasSubstr("fault")) << fault;
  }
  for (const char* fault : {"create", "plan", "apply"}) {
    EXPECT_EQ(failure_of(fault).status, DLLM_ERROR) << fault;
    EXPECT_EQ(failure_of(fault).what(), std::string("fault in ") + fault);
  }
  EXPECT_EQ(failure_of("foreign").status, DLLM_ERROR);
  EXPECT_THAT(failure_of("foreign").what(), HasSubstr("no std::exception"));
  EXPECT_THAT(failure_of("no_run").what(), HasSubstr("no run"));
  EXPECT_THAT(failure_of("undeclared").what(), HasSubstr("no_such_option"));
  EXPECT_THAT(failure_of("unwanted").what(), HasSubstr("'top2_prob' is read but"));
}

TEST(SdkBoundary, CutsLongMessagesBetweenCharacters) {
  dllm_error error = dllm::test::no_error();
  std::string text = "x";
  for (int i = 0; i < 600; ++i) text += "\xC3\xA9";
  dllm::sdk::detail::write_message(&error, text.c_str());
  // 1023 bytes are "x" and 511 letters of two bytes.
  EXPECT_EQ(std::string(error.message), text.substr(0, 1023));
  text.insert(0, "x");
  dllm::sdk::detail::write_message(&error, text.c_str());
  EXPECT_EQ(std::string(error.message), text.substr(0, 1022));
}

class SdkStats : public testing::Test {
 protected:
  SdkStats() : sampler_(kTable, {}, facts_), run_(sampler_, canvas_, 1) {}

  // The message with which apply refuses `stats`, or empty.
  std::string refusal(const dllm_stats& stats) {
    try {
      run_.apply(canvas_, stats);
    } catch (const PluginFailure& failure) {
      return failure.what();
    }
    return "";
  }
  HostStats answered() {
    return dllm::test::answer(run_.plan(canvas_), facts_, 1, 0, dllm::test::same_logits);
  }

  dllm_model_facts facts_ = dllm::test::small_facts(kVocab, kMaskId);
  HostCanvas canvas_ = prompt_and_masks(1, 3);
  HostSampler sampler_;
  HostRun run_;
};

TEST_F(SdkStats, OfAnotherNumberOfRowsAreRefusedWithBothNumbers) {
  const HostStats stats = answered();
  dllm_stats view = stats.view();
  view.n_rows = 2;
  EXPECT_THAT(refusal(view), testing::AllOf(HasSubstr("2 rows"), HasSubstr("asked for 3")));
}

TEST_F(SdkStats, OfOtherPositionsAreRefused) {
  HostStats stats = answered();
  stats.positions[1] = 0;
  EXPECT_THAT(refusal(stats.view()), HasSubstr("other positions"));
}

TEST_F(SdkStats, WithoutAWantedArrayAreRefusedNamingIt) {
  const HostStats stats = answered();
  dllm_stats view = stats.view();
  view.entropy = nullptr;
  EXPECT_THAT(refusal(view), HasSubstr("'entropy'"));
}

TEST(SdkStatsLists, ShorterThanThePlanAskedForAreRefusedLongerAreStrides) {
  Plan plan;
  plan.positions = {4};
  plan.want = DLLM_STAT_PROB_OF;
  plan.prob_of = {1, 2};
  const std::uint32_t position = 4;
  const float probabilities[] = {0.5f, 0.25f, 0.0f};
  dllm_stats stats{};
  stats.n_rows = 1;
  stats.positions = &position;
  stats.prob_of = probabilities;
  stats.n_prob_of = 1;
  EXPECT_ANY_THROW(dllm::sdk::detail::check_stats(plan, stats));
  stats.n_prob_of = 3;
  EXPECT_NO_THROW(dllm::sdk::detail::check_stats(plan, stats));
  EXPECT_EQ(Stats(stats).prob_of(0, 1), 0.25f);
}

TEST_F(SdkStats, AreAppliedOnceAPlan) {
  EXPECT_THAT(refusal(dllm_stats{}), HasSubstr("without a plan"));
  const HostStats stats = answered();
  EXPECT_THAT(refusal(stats.view()), IsEmpty());
  EXPECT_THAT(refusal(stats.view()), HasSubstr("without a plan"));
}

struct TakingRun final : ScriptedRun {
  TakingRun() : ScriptedRun("none") {}
  void take_logits(const Canvas&, const dllm::sdk::Logits&) override {}
};
struct TakingSampler final : dllm::sdk::Sampler {
  TakingSampler(const Options&, const dllm_model_facts&) {}
  std::unique_ptr<dllm::sdk::Run> start(const Canvas&, std::uint64_t) const override {
    return std::make_unique<TakingRun>();
  }
  static const void* extension(const char* name) {
    return std::string_view(name) == DLLM_EXTENSION_RAW_LOGITS ? &dllm::sdk::kRawLogitsTable
                                                               : nullptr;
  }
};

// As a host does that was made before the extension.
TEST(SdkRawLogits, ARuleThatTakesThemIsNotAppliedWithoutThem) {
  static constexpr dllm_sampler_v1 table = dllm::sdk::make_table<TakingSampler>(nullptr);
  const auto facts = dllm::test::small_facts(kVocab, kMaskId);
  const HostSampler sampler(table, {}, facts);
  HostCanvas canvas = prompt_and_masks(1, 2);
  HostRun run(sampler, canvas, 1);
  dllm::test::Round round;
  try {
    dllm::test::play_round(run, canvas, facts, 1, dllm::test::same_logits, round);
    FAIL() << "applied";
  } catch (const PluginFailure& failure) {
    EXPECT_EQ(failure.status, DLLM_ERROR);
    EXPECT_THAT(failure.what(), HasSubstr("knows the extension dllm.raw_logits/1"));
  }
}

TEST(SdkLargest, PicksByScoreThenByLowerIndexAndReturnsIndexOrder) {
  EXPECT_THAT(dllm::sdk::largest({1, 3, 2, 3, 3}, 2), ElementsAre(1, 3));
  EXPECT_THAT(dllm::sdk::largest({1, 3, 2}, 2), ElementsAre(1, 2));
  EXPECT_THAT(dllm::sdk::largest({1, 3}, 9), ElementsAre(0, 1));
  EXPECT_THAT(dllm::sdk::largest({}, 1), IsEmpty());
}

TEST(SdkLargest, RefusesWhatCannotBeRanked) {
  EXPECT_ANY_THROW(dllm::sdk::largest({1, std::nan(""), 2}, 1));
}

}  // namespace

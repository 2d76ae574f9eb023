// The engine on one sequence: what is scored, what is written, when it ends.
#include "dllm/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.hpp"
#include "script_sampler.hpp"

namespace dllm::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kM = FakeModel::kMask;
constexpr std::int32_t kStop = FakeModel::kStop;
constexpr EngineLimits kLimits{.max_sequences = 4, .max_sequence_length = 64, .max_tokens = 256};

SequenceResult run_to_end(Engine& engine, SequenceId id) {
  while (engine.running()) engine.step();
  return engine.result(id);
}

TEST(Engine, FillsHolesAnywhereInTheCanvas) {
  FakeModel model;
  Engine engine(model, kLimits);
  const auto id =
      engine.add(request_of({5, kM, 6, kM, kM, 7, kM}, make_sampler(commit_left_to_right(1))));
  const SequenceResult result = run_to_end(engine, id);
  EXPECT_EQ(result.status, SequenceStatus::finished);
  EXPECT_EQ(result.reason, FinishReason::length);
  EXPECT_THAT(result.ids, ElementsAre(5, 1, 6, 3, 4, 7, 6));
  EXPECT_EQ(result.forwards, 4u);
  EXPECT_EQ(result.steps, 4u);
}

TEST(Engine, ReportsEveryEditOfAStep) {
  FakeModel model;
  Engine engine(model, kLimits);
  engine.add(request_of({5, kM, kM, kM}, make_sampler(commit_left_to_right(2))));
  const StepReport& report = engine.step();
  ASSERT_EQ(report.sequences.size(), 1u);
  EXPECT_EQ(report.sequences[0].n_scored, 3u);
  EXPECT_EQ(report.sequences[0].n_masked, 1u);
  ASSERT_EQ(report.edits_of(report.sequences[0]).size(), 2u);
  EXPECT_EQ(report.edits_of(report.sequences[0])[1].position, 2u);
  EXPECT_EQ(report.edits_of(report.sequences[0])[1].token, 2);
  EXPECT_EQ(report.n_tokens, 4u);
  EXPECT_EQ(report.n_score_rows, 3u);
}

class SamplerTime final : public ProfileSink {
 public:
  void span(const StageSpan& span) override {
    EXPECT_EQ(span.stage, Stage::sampler) << span.name;
    names.emplace_back(span.name);
  }
  void move(Stage, Stage, std::int64_t) override {}
  std::vector<std::string> names;
};

TEST(Engine, ReportsPlansAndEditsAsTheSamplersTimeWhileThereIsASink) {
  FakeModel model;
  Engine engine(model, kLimits);
  engine.add(request_of({5, kM, kM, kM}, make_sampler(commit_left_to_right(1))));
  SamplerTime sink;
  engine.set_profile(&sink);
  engine.step();
  EXPECT_THAT(sink.names, ElementsAre("plan", "apply"));
  engine.set_profile(nullptr);
  engine.step();
  EXPECT_EQ(sink.names.size(), 2u);
}

TEST(Engine, CanvasWithoutMasksEndsWithoutAForward) {
  FakeModel model;
  Engine engine(model, kLimits);
  const auto id = engine.add(request_of({1, 2, 3}, make_sampler(commit_left_to_right(1))));
  EXPECT_FALSE(engine.running());
  EXPECT_EQ(engine.result(id).status, SequenceStatus::finished);
  EXPECT_EQ(model.forwards, 0u);
}

TEST(Engine, RoundsThatAskForNothingCostNoForward) {
  FakeModel model;
  Engine engine(model, kLimits);
  Script script = commit_left_to_right(1);
  script.plan = [inner = script.plan](const dllm_canvas& canvas, dllm_plan& plan,
                                      std::vector<std::uint32_t>& positions) {
    if (canvas.step % 3 == 2) inner(canvas, plan, positions);
  };
  script.apply = [inner = script.apply](const dllm_canvas& canvas, const dllm_stats& stats,
                                        std::vector<dllm_edit>& edits) {
    return stats.n_rows == 0 ? DLLM_RUN_RUNNING : inner(canvas, stats, edits);
  };
  const auto id = engine.add(request_of({kM, kM}, make_sampler(script)));
  const SequenceResult result = run_to_end(engine, id);
  EXPECT_EQ(result.steps, 6u);
  EXPECT_EQ(result.forwards, 2u);
  EXPECT_EQ(model.forwards, 2u);
}

TEST(Engine, StopsAtAnEndTokenOnceAllBeforeItIsFinal) {
  FakeModel model;
  model.token = [](std::uint32_t position, std::span<const std::int32_t>) {
    return position == 3 ? kStop : 10;
  };
  // Right to left: the end token at 3 is written while 1 and 2 are still masked.
  Script script = commit_left_to_right(1);
  script.apply = [](const dllm_canvas&, const dllm_stats& stats, std::vector<dllm_edit>& edits) {
    std::uint32_t last = 0;
    while (last + 1 < stats.n_rows && stats.positions[last + 1] <= 3) ++last;
    edits.push_back({stats.positions[last], stats.sampled[last], DLLM_EDIT_COMMIT, 1});
    return DLLM_RUN_RUNNING;
  };
  Engine engine(model, kLimits);
  const auto id = engine.add(request_of({9, kM, kM, kM, kM, kM, kM}, make_sampler(script)));
  engine.step();  // commits 3
  EXPECT_EQ(engine.result(id).status, SequenceStatus::running);
  const SequenceResult result = run_to_end(engine, id);
  EXPECT_EQ(result.reason, FinishReason::stop);
  EXPECT_THAT(result.ids.subspan(0, 4), ElementsAre(9, 10, 10, kStop));
  EXPECT_EQ(result.state[6], DLLM_POSITION_MASKED) << "positions after the end are not computed";
}

TEST(Engine, IgnoresEndTokensOnRequestAndInThePrompt) {
  FakeModel model;
  model.token = [](std::uint32_t, std::span<const std::int32_t>) { return kStop; };
  Engine engine(model, kLimits);
  SequenceRequest request = request_of({kStop, kM, kM}, make_sampler(commit_left_to_right(1)));
  request.ignore_eos = true;
  const auto id = engine.add(std::move(request));
  const SequenceResult result = run_to_end(engine, id);
  EXPECT_EQ(result.reason, FinishReason::length);
  EXPECT_EQ(result.forwards, 2u);
}

TEST(Engine, RemasksAndReplacesWhereTheSamplerSaysSo) {
  FakeModel model;
  Script script = commit_left_to_right(8);
  script.apply = [](const dllm_canvas& canvas, const dllm_stats& stats,
                    std::vector<dllm_edit>& edits) {
    if (canvas.step == 0) {
      edits.push_back({1, stats.sampled[0], DLLM_EDIT_COMMIT, 0});
      edits.push_back({2, stats.sampled[1], DLLM_EDIT_COMMIT_REVOCABLE, 0});
      return DLLM_RUN_RUNNING;
    }
    if (canvas.step == 1) {
      edits.push_back({1, 0, DLLM_EDIT_REMASK, 0});
      edits.push_back({2, 33, DLLM_EDIT_REPLACE, 0});
      return DLLM_RUN_RUNNING;
    }
    edits.push_back({1, 44, DLLM_EDIT_COMMIT, 0});
    return DLLM_RUN_FINISHED;
  };
  script.plan = [](const dllm_canvas&, dllm_plan& plan, std::vector<std::uint32_t>& positions) {
    plan.want = DLLM_STAT_SAMPLED;
    positions = {1, 2};
  };
  Engine engine(model, kLimits);
  const auto id = engine.add(request_of({9, kM, kM}, make_sampler(script)));
  engine.step();
  EXPECT_THAT(engine.result(id).state,
              ElementsAre(DLLM_POSITION_FIXED, DLLM_POSITION_COMMITTED, DLLM_POSITION_REVOCABLE));
  engine.step();
  EXPECT_EQ(engine.result(id).ids[1], kM);
  EXPECT_EQ(engine.result(id).ids[2], 33);
  EXPECT_THAT(run_to_end(engine, id).ids, ElementsAre(9, 44, 33));
}

TEST(Engine, CanvasEqualToTheContextFitsAndOneMoreIsRefusedWithBothNumbers) {
  FakeModel model;
  Engine engine(model, {.max_sequences = 1, .max_sequence_length = 65, .max_tokens = 130});
  const auto sampler = make_sampler(commit_left_to_right(1));
  std::vector<std::int32_t> ids(64, kM);
  EXPECT_EQ(check_request(request_of(ids, sampler), model.info()), 64u);
  ids.push_back(kM);
  const Error error = error_of([&] { engine.add(request_of(ids, sampler)); });
  EXPECT_EQ(error.code(), ErrorCode::bad_usage);
  EXPECT_THAT(error.what(), HasSubstr("65 positions, the context has 64"));
}

TEST(Engine, NonFiniteLogitsEndTheSequenceNamingThePosition) {
  FakeModel model;
  model.nan_position = 2;
  Engine engine(model, kLimits);
  const auto id = engine.add(request_of({1, kM, kM}, make_sampler(commit_left_to_right(1))));
  const SequenceResult result = run_to_end(engine, id);
  ASSERT_EQ(result.status, SequenceStatus::failed);
  EXPECT_THAT(result.error->what(), HasSubstr("position 2 are not finite"));
}

TEST(Engine, FullLogitsScoresEveryPositionAndChangesNothing) {
  std::vector<std::vector<std::int32_t>> texts;
  for (const bool full : {false, true}) {
    FakeModel model;
    EngineLimits limits = kLimits;
    limits.full_logits = full;
    Engine engine(model, limits);
    const auto id =
        engine.add(request_of({5, kM, 6, kM, kM, 7}, make_sampler(commit_left_to_right(1))));
    EXPECT_EQ(engine.step().n_score_rows, full ? 6u : 3u);
    const auto ids = run_to_end(engine, id).ids;
    texts.emplace_back(ids.begin(), ids.end());
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(Engine, RecorderSeesEveryRoundWithAllRowsAndChangesNothing) {
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<std::uint32_t> asked;
  for (const bool record : {false, true}) {
    FakeModel model;
    EngineLimits limits = kLimits;
    limits.record_top_list = record ? 3 : 0;
    Engine engine(model, limits);
    auto request = request_of({5, kM, 6, kM, kM, 7}, make_sampler(commit_left_to_right(2)));
    if (record) {
      request.recorder = [&](const SequenceRound& round) {
        EXPECT_EQ(round.canvas.step, asked.size());
        asked.push_back(round.answers.n_rows);
        EXPECT_EQ(round.plan.n_positions, round.answers.n_rows);
        EXPECT_EQ(round.answers.argmax, nullptr) << "the sampler gets what it wanted";
        ASSERT_EQ(round.all.n_rows, 6u);
        EXPECT_EQ(round.all.n_top_list, 3u);
        EXPECT_EQ(round.all.positions[4], 4u);
        EXPECT_EQ(round.all.argmax[4], 4);
        EXPECT_EQ(round.finished, round.edits.size() < 2);
      };
    }
    const auto id = engine.add(std::move(request));
    const auto ids = run_to_end(engine, id).ids;
    texts.emplace_back(ids.begin(), ids.end());
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_THAT(asked, ::testing::ElementsAre(3, 1));
}

}  // namespace
}  // namespace dllm::test

// sampler_llada through the C boundary: edge cases, refusals. Agreement with the reference over
// random settings is reference_test.py's claim, over all schedules schedules_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "play.hpp"

namespace {

using dllm::test::counts_of;
using dllm::test::HostCanvas;
using dllm::test::HostRun;
using dllm::test::HostSampler;
using dllm::test::kMaskId;
using dllm::test::kVocab;
using dllm::test::play;
using dllm::test::Played;
using dllm::test::PluginFailure;
using dllm::test::prompt_and_masks;
using dllm::test::refusal;
using dllm::test::Round;
using dllm::test::Texts;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const dllm_sampler_v1& llada() { return dllm::test::plugin("llada"); }

std::string text(std::uint32_t value) { return std::to_string(value); }

TEST(LladaSchedule, SpreadsTenStepsOverTwoUnevenBlocks) {
  // 48 masked positions, block 32: 32 in the first 5 steps, 16 in the last 5.
  const Played played =
      play(llada(), {{"steps", "10"}, {"block_length", "32"}}, prompt_and_masks(7, 48));
  EXPECT_THAT(counts_of(played), ElementsAre(7, 7, 6, 6, 6, 4, 3, 3, 3, 3));
}

TEST(LladaSchedule, StepsThatCommitNothingAskForNothing) {
  const Played played =
      play(llada(), {{"steps", "10"}, {"block_length", "2"}}, prompt_and_masks(1, 4));
  EXPECT_EQ(played.forwards, 4u);
  for (const Round& round : played.rounds) EXPECT_EQ(round.asked.empty(), round.committed.empty());
}

TEST(LladaRun, FinishesAtOnceWhenNothingIsMasked) {
  const Played played = play(llada(), {}, prompt_and_masks(3, 0));
  EXPECT_EQ(played.rounds.size(), 1u);
  EXPECT_EQ(played.forwards, 0u);
}

TEST(LladaRun, FillsOnePositionInOneStepAndManyInOneStep) {
  for (std::uint32_t n : {1u, 9u}) {
    const Played played =
        play(llada(), {{"steps", "1"}, {"block_length", text(n)}}, prompt_and_masks(2, n));
    EXPECT_EQ(played.rounds.size(), 1u);
    EXPECT_EQ(played.canvas.n_open(), 0u);
  }
}

TEST(LladaRun, EqualConfidencesGoLowestPositionFirst) {
  const Played played = play(llada(), {{"steps", "2"}}, prompt_and_masks(1, 4));
  EXPECT_THAT(played.rounds[0].committed, ElementsAre(1, 2));
}

TEST(LladaRun, CommitsTheMostConfidentFirst) {
  const Played played =
      play(llada(), {{"steps", "2"}}, prompt_and_masks(1, 4), 1, dllm::test::rising_logits);
  EXPECT_THAT(played.rounds[0].committed, ElementsAre(3, 4));
}

TEST(LladaRun, FillsHolesBlockByBlockAndLeavesTheRest) {
  // Masked: 0, 2, 5, 6; position 3 is a mask id that is given, 4 an editable filled one.
  const HostCanvas canvas({kMaskId, 1, kMaskId, kMaskId, 6, kMaskId, kMaskId},
                          {1, 0, 1, 0, 1, 1, 1}, kMaskId);
  const Played played = play(llada(), {{"block_length", "2"}, {"steps", "2"}}, canvas);
  EXPECT_THAT(played.rounds[0].committed, ElementsAre(0, 2));
  EXPECT_THAT(played.rounds[1].committed, ElementsAre(5, 6));
  EXPECT_THAT(played.canvas.ids, ElementsAre(5, 1, 5, kMaskId, 6, 5, 5));
}

TEST(LladaRun, RandomRemaskingAsksOnlyForTheRowsItCommits) {
  const Texts options{{"remasking", "random"}, {"steps", "4"}, {"block_length", "8"}};
  const Played one = play(llada(), options, prompt_and_masks(2, 8), 1);
  for (const Round& round : one.rounds) EXPECT_EQ(round.asked, round.committed);
  const auto first_of = [&](std::uint64_t seed) {
    return play(llada(), options, prompt_and_masks(2, 8), seed).rounds[0].committed;
  };
  EXPECT_EQ(first_of(1), first_of(1));
  EXPECT_TRUE(first_of(1) != first_of(2) || first_of(1) != first_of(3));
}

TEST(LladaRun, IsTheSameForEverySeedAtTemperature0) {
  const auto with_seed = [](std::uint64_t seed) {
    return play(llada(), {}, prompt_and_masks(2, 9), seed, dllm::test::rising_logits).canvas.ids;
  };
  EXPECT_EQ(with_seed(1), with_seed(2));
  EXPECT_EQ(with_seed(1), with_seed(3));
}

TEST(LladaRun, PlanningTwiceGivesTheSamePlan) {
  for (const char* remasking : {"low_confidence", "random"}) {
    const auto facts = dllm::test::small_facts(kVocab, kMaskId);
    const HostSampler sampler(llada(), {{"remasking", remasking}, {"steps", "3"}}, facts);
    HostCanvas canvas = prompt_and_masks(1, 7);
    HostRun run(sampler, canvas, 5);
    for (bool finished = false; !finished;) {
      const dllm_plan first = run.plan(canvas);
      const std::vector<std::uint32_t> asked(first.positions, first.positions + first.n_positions);
      Round round;
      finished = dllm::test::play_round(run, canvas, facts, 5, dllm::test::same_logits, round);
      EXPECT_EQ(round.asked, asked);
    }
  }
}

TEST(LladaRun, CopesWithPositionsThatOthersFillAndMask) {
  const auto facts = dllm::test::small_facts(kVocab, kMaskId);
  const HostSampler sampler(llada(), {{"steps", "6"}, {"block_length", "3"}}, facts);
  HostCanvas canvas = prompt_and_masks(1, 6);
  HostRun run(sampler, canvas, 1);
  std::uint32_t rounds = 0;
  for (bool finished = false; !finished; ++rounds) {
    ASSERT_LT(rounds, 6u);
    if (rounds == 1) {
      canvas.state[3] = canvas.state[6] = DLLM_POSITION_COMMITTED;
      canvas.ids[3] = canvas.ids[6] = 2;
    }
    if (rounds == 3) {
      canvas.state[1] = DLLM_POSITION_MASKED;
      canvas.ids[1] = kMaskId;
    }
    Round round;
    finished = dllm::test::play_round(run, canvas, facts, 1, dllm::test::same_logits, round);
  }
  EXPECT_EQ(canvas.n_open(), 0u);
  EXPECT_EQ(canvas.ids[3], 2);
}

TEST(LladaOptions, RefusesFewerStepsThanBlocksNamingBothNumbers) {
  const PluginFailure failure =
      refusal(llada(), {{"steps", "3"}, {"block_length", "8"}}, prompt_and_masks(5, 32));
  EXPECT_EQ(failure.status, DLLM_BAD_OPTION);
  EXPECT_THAT(failure.what(), AllOf(HasSubstr("steps 3"), HasSubstr("4 blocks"),
                                    HasSubstr("32 masked"), HasSubstr("block_length 8")));
}

TEST(LladaOptions, ExactRefusesWhatTheReferenceAssertsAgainst) {
  const PluginFailure length =
      refusal(llada(), {{"exact", "true"}, {"steps", "48"}, {"block_length", "32"}},
              prompt_and_masks(1, 48));
  EXPECT_EQ(length.status, DLLM_BAD_OPTION);
  EXPECT_THAT(length.what(), AllOf(HasSubstr("48"), HasSubstr("32")));
  const PluginFailure steps =
      refusal(llada(), {{"exact", "true"}, {"steps", "10"}, {"block_length", "8"}},
              prompt_and_masks(1, 32));
  EXPECT_EQ(steps.status, DLLM_BAD_OPTION);
  EXPECT_THAT(steps.what(), AllOf(HasSubstr("10"), HasSubstr("4 blocks")));
}

TEST(LladaOptions, RefusesEosOptionsWhereTheVocabularyNamesNoSuchToken) {
  for (const char* option : {"logits_eos_inf", "confidence_eos_eot_inf"}) {
    const PluginFailure failure = refusal(llada(), {{option, "true"}}, prompt_and_masks(1, 4));
    EXPECT_EQ(failure.status, DLLM_BAD_OPTION);
    EXPECT_THAT(failure.what(), HasSubstr(option));
  }
}

TEST(LladaOptions, RefusesATemperatureThatWouldOverflow) {
  const PluginFailure failure = refusal(llada(), {{"temperature", "1e-9"}}, prompt_and_masks(1, 4));
  EXPECT_EQ(failure.status, DLLM_BAD_OPTION);
}

TEST(LladaOptions, DeclaresRangesThatTheHostEnforces) {
  const auto infos = dllm::test::option_infos(llada());
  EXPECT_NO_THROW(dllm::check_options(infos, {}, "sampler llada"));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"steps", "-1"},      {"steps", "8x"},           {"steps", "2.5"},
      {"block_length", ""}, {"temperature", "-0.1"},   {"temperature", "nan"},
      {"cfg_scale", "inf"}, {"remasking", "low_conf"}, {"exact", "maybe"},
      {"top_p", "0.9"}};
  for (const auto& [name, value] : bad) {
    EXPECT_ANY_THROW(dllm::check_options(infos, {{name, value}}, "sampler llada"))
        << name << " = " << value;
  }
}

}  // namespace

// The SDK's example samplers do what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dllm_sdk/testing.hpp"
#include "play.hpp"

namespace {

using dllm::sdk::LogitRow;
using dllm::sdk::testing::Game;
using dllm::sdk::testing::Played;
using dllm::sdk::testing::PlayedRound;
using dllm::sdk::testing::Refused;
using testing::ElementsAre;
using testing::HasSubstr;

const dllm_sampler_v1& example(const char* name) {
  return *dllm::test::load_sampler(std::string(DLLM_EXAMPLE_PLUGINS) + "/sampler_" + name + ".so");
}

std::vector<std::uint32_t> committed(const PlayedRound& round) {
  std::vector<std::uint32_t> positions;
  for (const dllm_edit& edit : round.edits) positions.push_back(edit.position);
  std::sort(positions.begin(), positions.end());
  return positions;
}

TEST(ExampleSamplers, FirstFillsFromLeftToRightAndAsksForOneRowAStep) {
  const Played played = Game(example("first")).canvas(2, 3).play();
  ASSERT_EQ(played.rounds.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_THAT(played.rounds[i].asked, ElementsAre(2 + i));
    EXPECT_THAT(committed(played.rounds[i]), ElementsAre(2 + i));
  }
}

// Positions 2 and 3 are sure (probability above 0.99), the others the surer the further right.
LogitRow two_sure(std::uint32_t position) {
  const bool sure = position == 2 || position == 3;
  return {{5, sure ? 20.0 : 0.1 * position}, {6, 0.0}};
}

TEST(ExampleSamplers, ThresholdCommitsAllThatAreSureElseTheBest) {
  const Played played = Game(example("threshold")).canvas(1, 5).logits(two_sure).play();
  ASSERT_EQ(played.rounds.size(), 4u);
  EXPECT_THAT(committed(played.rounds[0]), ElementsAre(2, 3));
  EXPECT_THAT(committed(played.rounds[1]), ElementsAre(5));
  EXPECT_THAT(committed(played.rounds[2]), ElementsAre(4));
  EXPECT_THAT(committed(played.rounds[3]), ElementsAre(1));
}

TEST(ExampleSamplers, MarginPrefersTheClearestLead) {
  // Position 1 has the larger first probability, position 2 the larger lead.
  const auto logits = [](std::uint32_t position) {
    return position == 1 ? LogitRow{{5, 2.0}, {6, 1.9}}
                         : LogitRow{{7, 2.0}, {8, 0.5}, {9, 0.5}, {10, 0.5}, {11, 0.5}};
  };
  const Played played = Game(example("margin")).canvas(1, 2).logits(logits).play();
  EXPECT_THAT(committed(played.rounds[0]), ElementsAre(2));
  EXPECT_THAT(played.ids, ElementsAre(1, 5, 7));
}

TEST(ExampleSamplers, MarginTakesItsOption) {
  const Played played = Game(example("margin")).option("per_step", "3").canvas(1, 7).play();
  EXPECT_EQ(played.forwards, 3u);
}

// The guidance of each forward, as planned.
std::vector<float> scales(const dllm::test::Texts& options, std::uint32_t masked) {
  const auto facts = dllm::test::small_facts(dllm::test::kVocab, dllm::test::kMaskId);
  const dllm::test::HostSampler sampler(example("guided"), options, facts);
  dllm::test::HostCanvas canvas = dllm::test::prompt_and_masks(1, masked);
  dllm::test::HostRun run(sampler, canvas, 1);
  std::vector<float> out;
  for (bool finished = false; !finished;) {
    out.push_back(run.plan(canvas).guidance_scale);
    dllm::test::Round round;
    finished = dllm::test::play_round(run, canvas, facts, 1, dllm::test::same_logits, round);
  }
  return out;
}

TEST(ExampleSamplers, GuidanceFadesInAStraightLineAndThenCostsNothing) {
  EXPECT_THAT(scales({{"scale", "2"}, {"until", "0.5"}}, 8), ElementsAre(2, 1, 0, 0));
  EXPECT_THAT(scales({{"scale", "3"}, {"until", "1"}, {"per_step", "1"}}, 3),
              ElementsAre(3, testing::FloatEq(2), testing::FloatEq(1)));
}

TEST(ExampleSamplers, GuidedRefusesAScaleThatCannotAct) {
  try {
    Game(example("guided")).option("until", "0").play();
    FAIL() << "taken";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status, DLLM_BAD_OPTION);
    EXPECT_THAT(refused.what(), HasSubstr("until 0. Fix: raise until"));
  }
}

}  // namespace

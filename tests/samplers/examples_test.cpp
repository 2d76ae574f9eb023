// The complete samplers of docs/writing-a-sampler.md do what the page says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "play.hpp"

namespace {

using dllm::test::play;
using dllm::test::Played;
using dllm::test::prompt_and_masks;
using dllm::test::Texts;
using testing::ElementsAre;
using testing::HasSubstr;

const dllm_sampler_v1& example(const char* name) {
  return *dllm::test::load_sampler(std::string(DLLM_EXAMPLE_PLUGINS) + "/sampler_" + name + ".so");
}

TEST(ExampleSamplers, FirstFillsFromLeftToRightAndAsksForOneRowAStep) {
  const Played played = play(example("first"), {}, prompt_and_masks(2, 3));
  ASSERT_EQ(played.rounds.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_THAT(played.rounds[i].asked, ElementsAre(2 + i));
    EXPECT_THAT(played.rounds[i].committed, ElementsAre(2 + i));
  }
}

// One position sure (probability above 0.99), the others rising_logits.
std::vector<double> one_sure(std::uint32_t position) {
  std::vector<double> logits = dllm::test::rising_logits(position);
  if (position == 2 || position == 3) logits[5] = 20;
  return logits;
}

TEST(ExampleSamplers, ThresholdCommitsAllThatAreSureElseTheBest) {
  const Played played = play(example("threshold"), {}, prompt_and_masks(1, 5), 1, one_sure);
  EXPECT_THAT(played.rounds[0].committed, ElementsAre(2, 3));
  EXPECT_THAT(played.rounds[1].committed, ElementsAre(5));
  EXPECT_THAT(played.rounds[2].committed, ElementsAre(4));
  EXPECT_EQ(played.canvas.n_open(), 0u);
}

TEST(ExampleSamplers, ThresholdLooksOnlyAtItsWindow) {
  const Played played =
      play(example("threshold"), {{"window", "2"}}, prompt_and_masks(1, 5), 1, one_sure);
  EXPECT_THAT(played.rounds[0].asked, ElementsAre(1, 2));
}

TEST(ExampleSamplers, ThresholdRefusesAWindowLongerThanTheContext) {
  const auto failure =
      dllm::test::refusal(example("threshold"), {{"window", "5000"}}, prompt_and_masks(1, 5));
  EXPECT_EQ(failure.status, DLLM_BAD_OPTION);
  EXPECT_THAT(failure.what(), testing::AllOf(HasSubstr("5000"), HasSubstr("4096")));
}

}  // namespace

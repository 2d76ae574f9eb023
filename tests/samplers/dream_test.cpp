// sampler_dream through the C boundary: schedule, the laws of its draws, edge cases, refusals.
// Agreement with the reference over random settings is reference_test.py's claim.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../../plugins/sampler_dream/time_schedule.hpp"
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
using dllm::test::Round;
using dllm::test::Texts;
using testing::ElementsAre;
using testing::HasSubstr;

const dllm_sampler_v1& dream_plugin() { return dllm::test::plugin("dream"); }

std::string text(std::uint32_t value) { return std::to_string(value); }

// Counts of every step of a whole run.
std::vector<std::uint32_t> schedule(std::uint32_t n, std::uint32_t steps, float eps = 1e-3f) {
  std::vector<std::uint32_t> counts;
  for (std::uint32_t i = 0; i < steps; ++i) {
    counts.push_back(dream::transfer_count(n, i, steps, eps));
    n -= counts.back();
  }
  return counts;
}

TEST(DreamSchedule, TimesAreTheEvenlySpacedOnesToOneFloat32Rounding) {
  for (std::uint32_t steps : {1u, 2u, 3u, 64u, 511u, 512u}) {
    for (std::uint32_t i = 0; i <= steps; ++i) {
      const double exact = 1.0 + (static_cast<double>(1e-3f) - 1.0) * i / steps;
      // Three roundings of numbers up to 1: step, product, sum.
      EXPECT_NEAR(dream::time_at(i, steps, 1e-3f), exact, 3 * 0x1p-24) << i << " of " << steps;
    }
    EXPECT_EQ(dream::time_at(0, steps, 1e-3f), 1.0f);
    EXPECT_EQ(dream::time_at(steps, steps, 1e-3f), 1e-3f);
  }
}

TEST(DreamSchedule, CommitsEveryPositionWhateverTheNumbers) {
  for (std::uint32_t n = 0; n <= 70; ++n) {
    for (std::uint32_t steps = 1; steps <= 70; ++steps) {
      std::uint32_t total = 0;
      for (const std::uint32_t count : schedule(n, steps)) total += count;
      ASSERT_EQ(total, n) << steps << " steps";
    }
  }
}

TEST(DreamSchedule, HasTheReferencesKnownShapes) {
  // 512 tokens in 512 steps: the first commits nothing, the last two.
  const auto equal = schedule(512, 512);
  EXPECT_EQ(equal.front(), 0u);
  EXPECT_EQ(equal.back(), 2u);
  // 256 tokens in 512 steps: 257 steps commit nothing.
  const auto slow = schedule(256, 512);
  EXPECT_EQ(std::count(slow.begin(), slow.end(), 0u), 257);
}

TEST(DreamRun, FollowsTheScheduleAndSkipsForwardsThatWouldCommitNothing) {
  for (const char* algorithm : {"maskgit_plus", "topk_margin", "entropy"}) {
    for (std::uint32_t steps : {1u, 5u, 12u, 40u}) {
      const Played played = play(dream_plugin(), {{"algorithm", algorithm}, {"steps", text(steps)}},
                                 prompt_and_masks(3, 12));
      std::vector<std::uint32_t> want = schedule(12, steps);
      while (want.back() == 0) want.pop_back();
      EXPECT_EQ(counts_of(played), want) << algorithm << " in " << steps;
      for (const Round& round : played.rounds) {
        EXPECT_EQ(round.asked.empty(), round.committed.empty());
      }
      EXPECT_EQ(played.canvas.n_open(), 0u);
    }
  }
}

TEST(DreamRun, FinishesAtOnceWhenNothingIsMasked) {
  const Played played = play(dream_plugin(), {}, prompt_and_masks(3, 0));
  EXPECT_EQ(played.rounds.size(), 1u);
  EXPECT_EQ(played.forwards, 0u);
}

TEST(DreamRun, EqualConfidencesGoLowestPositionFirst) {
  for (const char* algorithm : {"maskgit_plus", "topk_margin", "entropy"}) {
    const Played played =
        play(dream_plugin(), {{"algorithm", algorithm}, {"steps", "2"}}, prompt_and_masks(1, 4));
    EXPECT_THAT(played.rounds[0].committed, ElementsAre(1)) << algorithm;
  }
}

TEST(DreamRun, TheMostCertainGoFirst) {
  for (const char* algorithm : {"maskgit_plus", "topk_margin", "entropy"}) {
    const Played played = play(dream_plugin(), {{"algorithm", algorithm}, {"steps", "2"}},
                               prompt_and_masks(1, 4), 1, dllm::test::rising_logits);
    EXPECT_THAT(played.rounds[0].committed, ElementsAre(4)) << algorithm;
  }
}

TEST(DreamRun, FillsHolesAndLeavesGivenMasks) {
  const HostCanvas canvas({kMaskId, 1, kMaskId, kMaskId, 6}, {1, 0, 0, 1, 1}, kMaskId);
  const Played played = play(dream_plugin(), {}, canvas);
  EXPECT_THAT(played.canvas.ids, ElementsAre(5, 1, kMaskId, 5, 6));
}

TEST(DreamRun, OriginDrawsPositionsBeforeTheForwardAndAsksForThoseAlone) {
  const Played played =
      play(dream_plugin(), {{"algorithm", "origin"}, {"steps", "6"}}, prompt_and_masks(2, 10), 4);
  for (const Round& round : played.rounds) EXPECT_EQ(round.asked, round.committed);
  EXPECT_EQ(played.canvas.n_open(), 0u);
}

// Share of 4000 seeded runs whose first step commits `position`.
double first_step_share(const Texts& options, const HostCanvas& canvas, std::uint32_t position,
                        const dllm::test::LogitsOf& logits_of) {
  constexpr int kRuns = 4000;
  const auto facts = dllm::test::small_facts(kVocab, kMaskId);
  const HostSampler sampler(dream_plugin(), options, facts);
  int hits = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    HostCanvas fresh = canvas;
    HostRun run(sampler, fresh, seed);
    Round round;
    dllm::test::play_round(run, fresh, facts, seed, logits_of, round);
    hits += std::count(round.committed.begin(), round.committed.end(), position) > 0 ? 1 : 0;
  }
  return static_cast<double>(hits) / kRuns;
}

// Five standard deviations of a share near one half over 4000 runs; the seeds are fixed.
constexpr double kShareTolerance = 0.04;

TEST(DreamRun, OriginCommitsEachPositionWithTheTransferProbability) {
  const Texts options{{"algorithm", "origin"}, {"steps", "4"}};
  const double want = dream::transfer_share(0, 4, 1e-3f);
  for (std::uint32_t position : {1u, 3u}) {
    EXPECT_NEAR(
        first_step_share(options, prompt_and_masks(1, 3), position, dllm::test::same_logits), want,
        kShareTolerance);
  }
}

TEST(DreamRun, AlgTempDrawsPositionsInProportionToExpOfConfidence) {
  // One of three positions (share 0.35 of 3, truncated); P(i) ~ exp(c_i / alg_temp).
  const double alg_temp = 0.1;
  const Texts options{
      {"algorithm", "maskgit_plus"}, {"steps", "2"}, {"eps", "0.3"}, {"alg_temp", "0.1"}};
  const auto logits = [](std::uint32_t position) {
    return dllm::test::rising_logits(5 * position);
  };
  ASSERT_EQ(dream::transfer_count(3, 0, 2, 0.3f), 1u);
  double weights[3];
  double total = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const double lead = std::exp(logits(i + 1)[5]);
    total += weights[i] = std::exp(lead / (lead + 6) / alg_temp);  // the mask id is left out
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(first_step_share(options, prompt_and_masks(1, 3), i + 1, logits),
                weights[i] / total, kShareTolerance);
  }
}

TEST(DreamRun, IsTheSameForEverySeedAtTemperature0) {
  for (const char* algorithm : {"maskgit_plus", "topk_margin", "entropy"}) {
    const auto with_seed = [&](std::uint64_t seed) {
      return play(dream_plugin(), {{"algorithm", algorithm}}, prompt_and_masks(2, 9), seed,
                  dllm::test::rising_logits)
          .rounds[3]
          .committed;
    };
    EXPECT_EQ(with_seed(1), with_seed(2));
    EXPECT_EQ(with_seed(1), with_seed(3));
  }
}

// Ids after a run at temperature 0.8 on equal logits.
std::vector<std::int32_t> warm(const std::string& name, const std::string& value,
                               std::uint64_t seed = 1) {
  Texts options{{"temperature", "0.8"}, {"steps", "1"}};
  options[name] = value;
  return play(dream_plugin(), options, prompt_and_masks(1, 12), seed).canvas.ids;
}

TEST(DreamRun, EveryAcceptedOptionActs) {
  const auto plain = warm("top_k", "0");
  EXPECT_EQ(warm("top_k", "0"), plain);
  EXPECT_NE(warm("top_k", "0", 2), plain);
  EXPECT_NE(warm("top_p", "0.5"), plain);
  EXPECT_NE(warm("temperature", "20"), plain);
  const auto greedy = play(dream_plugin(), {{"steps", "1"}}, prompt_and_masks(1, 12)).canvas.ids;
  EXPECT_EQ(warm("top_k", "1"), greedy);
}

TEST(DreamRun, CopesWithPositionsThatOthersFillAndMask) {
  const auto facts = dllm::test::small_facts(kVocab, kMaskId);
  const HostSampler sampler(dream_plugin(), {{"steps", "6"}}, facts);
  HostCanvas canvas = prompt_and_masks(1, 6);
  HostRun run(sampler, canvas, 1);
  std::uint32_t rounds = 0;
  for (bool finished = false; !finished; ++rounds) {
    ASSERT_LT(rounds, 6u);
    if (rounds == 2) {
      canvas.state[6] = DLLM_POSITION_COMMITTED;
      canvas.ids[6] = 2;
    }
    if (rounds == 5) {
      canvas.state[1] = DLLM_POSITION_MASKED;
      canvas.ids[1] = kMaskId;
    }
    Round round;
    finished = dllm::test::play_round(run, canvas, facts, 1, dllm::test::same_logits, round);
  }
  EXPECT_EQ(canvas.n_open(), 0u);
  EXPECT_EQ(canvas.ids[6], 2);
}

TEST(DreamOptions, RefusesAlgTempWhereItCannotAct) {
  const PluginFailure failure = dllm::test::refusal(
      dream_plugin(), {{"algorithm", "origin"}, {"alg_temp", "0.5"}}, prompt_and_masks(1, 4));
  EXPECT_EQ(failure.status, DLLM_BAD_OPTION);
  EXPECT_THAT(failure.what(), HasSubstr("alg_temp"));
}

TEST(DreamOptions, DeclaresRangesThatTheHostEnforces) {
  const auto infos = dllm::test::option_infos(dream_plugin());
  EXPECT_NO_THROW(dllm::check_options(infos, {}, "sampler dream"));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"steps", "-1"},    {"eps", "0"},           {"eps", "1"},      {"algorithm", "entrpy"},
      {"top_p", "0"},     {"top_p", "1.5"},       {"top_k", "-1"},   {"top_k", "1.5"},
      {"alg_temp", "-1"}, {"temperature", "nan"}, {"cfg_scale", "1"}};
  for (const auto& [name, value] : bad) {
    EXPECT_ANY_THROW(dllm::check_options(infos, {{name, value}}, "sampler dream"))
        << name << " = " << value;
  }
  for (const char* value : {"1", "1e-300", "0.5"}) {
    EXPECT_NO_THROW(play(dream_plugin(), {{"top_p", value}}, prompt_and_masks(1, 2))) << value;
  }
}

}  // namespace

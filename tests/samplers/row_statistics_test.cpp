// dllm_sdk/row_statistics.hpp against the dense oracle every backend is held to.
#include "dllm_sdk/row_statistics.hpp"

#include <gtest/gtest.h>

#include <random>

#include "head_stats_oracle.hpp"
#include "plugin_host.hpp"

namespace {

using dllm::sdk::Answers;
using dllm::sdk::LogitRow;
using dllm::sdk::row_statistics;
using dllm::sdk::RowStatistics;

constexpr std::uint32_t kVocab = 24;

struct Setting {
  dllm_plan plan{};
  std::vector<std::int32_t> both, confidence, of = {0, 3, 7};
  std::uint64_t seed = 0;
};

Setting random_setting(std::mt19937& random) {
  const auto pick = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Setting setting;
  dllm_plan& plan = setting.plan;
  plan.domain = pick(2);
  const float temperatures[] = {0, 0.3f, 1, 2.5f};
  plan.temperature = temperatures[pick(4)];
  const float masses[] = {1, 0.9f, 0.4f, 0.01f};
  plan.top_p = masses[pick(4)];
  plan.top_k = pick(3) * 2;
  plan.flags = pick(4) == 0 ? DLLM_PLAN_ALLOW_ALL : 0;
  plan.n_top_list = pick(4);
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kVocab); ++id) {
    if (pick(8) == 0) setting.both.push_back(id);
    if (pick(8) == 0) setting.confidence.push_back(id);
  }
  setting.seed = random();
  return setting;
}

void attach(Setting& setting) {
  dllm_plan& plan = setting.plan;
  plan.suppress_both = setting.both.data();
  plan.n_suppress_both = static_cast<std::uint32_t>(setting.both.size());
  plan.suppress_confidence = setting.confidence.data();
  plan.n_suppress_confidence = static_cast<std::uint32_t>(setting.confidence.size());
  plan.prob_of = setting.of.data();
  plan.n_prob_of = static_cast<std::uint32_t>(setting.of.size());
}

dllm::StatsRequest request_of(const Setting& setting, const dllm_model_facts& facts) {
  dllm::StatsRequest request;
  request.domain = setting.plan.domain == 1 ? dllm::Domain::filtered : dllm::Domain::raw;
  request.temperature = setting.plan.temperature;
  request.top_p = setting.plan.top_p;
  request.top_k = setting.plan.top_k;
  request.suppress_both = setting.both;
  request.suppress_confidence = setting.confidence;
  request.prob_of = setting.of;
  request.top_list = setting.plan.n_top_list;
  request.allow_all = (setting.plan.flags & DLLM_PLAN_ALLOW_ALL) != 0;
  request.mask_id = facts.mask_id;
  request.n_tokens = facts.n_tokens;
  request.seed = setting.seed;
  request.step = 5;
  return request;
}

// Half of the ids, few levels: ties are common.
LogitRow random_row(std::mt19937& random) {
  LogitRow row;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kVocab); ++id) {
    if (random() % 2 == 0) row.push_back({id, static_cast<double>(random() % 5)});
  }
  std::shuffle(row.begin(), row.end(), random);
  return row;
}

TEST(RowStatistics, AgreeWithTheDenseOracleOver3000Settings) {
  std::mt19937 random(7);
  const double tolerance = 1e-12;  // both are double; only the order of the sums differs
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    dllm_model_facts facts = dllm::test::small_facts(kVocab, 3);
    facts.n_tokens = kVocab - 2;
    Setting setting = random_setting(random);
    attach(setting);
    const LogitRow row = random_row(random);
    std::vector<double> dense(kVocab, -std::numeric_limits<double>::infinity());
    for (const auto& logit : row) dense[static_cast<std::size_t>(logit.id)] = logit.value;

    const auto want = dllm::test::oracle_row_stats(dense, request_of(setting, facts), 11);
    const RowStatistics got = row_statistics(row, setting.plan, facts, setting.seed, 5, 11);
    SCOPED_TRACE(i);
    if (want.non_finite) {
      EXPECT_EQ(got.sampled, -1);
      EXPECT_EQ(got.argmax, -1);
      continue;
    }
    ++compared;
    EXPECT_EQ(got.argmax, want.argmax);
    EXPECT_EQ(got.sampled, want.sampled);
    EXPECT_NEAR(got.sampled_prob, want.sampled_prob, tolerance);
    EXPECT_NEAR(got.top1_prob, want.top1_prob, tolerance);
    EXPECT_NEAR(got.top2_prob, want.top2_prob, tolerance);
    EXPECT_NEAR(got.entropy, want.entropy, tolerance);
    if (std::isfinite(want.log_sum_exp)) {
      EXPECT_NEAR(got.log_sum_exp, want.log_sum_exp, tolerance);
    }
    for (std::size_t j = 0; j < setting.of.size(); ++j) {
      EXPECT_NEAR(got.prob_of[j], want.prob_of[j], tolerance);
    }
    for (std::size_t j = 0; j < got.top_ids.size(); ++j) {
      EXPECT_EQ(got.top_ids[j], want.top_ids[j]);
      EXPECT_NEAR(got.top_probs[j], want.top_probs[j], tolerance);
    }
  }
  EXPECT_GT(compared, 2500);
}

TEST(Answers, ShowOnlyWhatWasWantedAndKeepStrides) {
  const std::uint32_t positions[] = {4, 9};
  const std::int32_t of[] = {5};
  dllm_plan plan{};
  plan.positions = positions;
  plan.n_positions = 2;
  plan.want = DLLM_STAT_PROB_OF | DLLM_STAT_ENTROPY;
  plan.prob_of = of;
  plan.n_prob_of = 1;
  plan.top_p = 1;
  const auto facts = dllm::test::small_facts(8, 3);
  const Answers answers = dllm::sdk::answer_plan(
      plan, facts, 1, 0, [](std::uint32_t p) { return LogitRow{{5, p * 1.0}, {6, 4.0}}; }, 2);
  const dllm_stats stats = answers.view();
  EXPECT_EQ(stats.n_rows, 2u);
  EXPECT_EQ(stats.sampled, nullptr);
  EXPECT_EQ(stats.top_ids, nullptr);
  ASSERT_NE(stats.entropy, nullptr);
  EXPECT_EQ(stats.n_prob_of, 3u);
  EXPECT_FLOAT_EQ(stats.prob_of[0], 0.5f);
  EXPECT_GT(stats.prob_of[3], 0.99f);
}

}  // namespace

// Whole logits for a sampler that takes them: which rows, guidance applied, and faults of one
// alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dllm/error.hpp"
#include "script_sampler.hpp"

namespace dllm::test {
namespace {

constexpr std::int32_t kM = FakeModel::kMask;

// What each take() brought: row by row, position and the logit of id 7.
struct Taken {
  std::vector<std::uint32_t> positions;
  std::vector<float> of_id_7;
};

std::vector<Taken>& taken() {
  static std::vector<Taken> all;
  return all;
}
bool& take_fails() {
  static bool fails = false;
  return fails;
}

dllm_status take(dllm_sampler_run*, const dllm_canvas*, const dllm_raw_logits* logits,
                 dllm_error* error) {
  if (take_fails()) {
    std::strncpy(error->message, "too much for me", sizeof error->message - 1);
    return DLLM_ERROR;
  }
  Taken& now = taken().emplace_back();
  for (std::uint32_t row = 0; row < logits->n_rows; ++row) {
    now.positions.push_back(logits->positions[row]);
    now.of_id_7.push_back(logits->values[row * std::size_t{logits->n_vocab} + 7]);
  }
  return DLLM_OK;
}

constexpr dllm_raw_logits_v1 kTable = {sizeof(dllm_raw_logits_v1), 0, &take};
const void* extension(const char* name) {
  return std::strcmp(name, DLLM_EXTENSION_RAW_LOGITS) == 0 ? &kTable : nullptr;
}

// Asks for every second masked position; commits all it asked for.
Script every_second(float guidance = 0) {
  Script script = commit_left_to_right(100);
  script.plan = [guidance](const dllm_canvas& canvas, dllm_plan& plan,
                           std::vector<std::uint32_t>& positions) {
    plan.want = DLLM_STAT_SAMPLED;
    plan.guidance_scale = guidance;
    bool second = false;
    for (std::uint32_t i = 0; i < canvas.n_positions; ++i) {
      if (canvas.state[i] != DLLM_POSITION_MASKED) continue;
      if (second) positions.push_back(i);
      second = !second;
    }
  };
  return script;
}

class RawLogits : public testing::Test {
 protected:
  RawLogits() {
    taken().clear();
    take_fails() = false;
  }
  Engine engine(std::uint32_t top_list = 0) {
    return Engine(model_, {.max_sequences = 2,
                           .max_sequence_length = 16,
                           .max_tokens = 64,
                           .record_top_list = top_list});
  }
  FakeModel model_;
};

// FakeModel: logit of id 7 in row r of the forward is 10 r + 0.07.
TEST_F(RawLogits, AreOfTheRowsOfThePlanAlsoInABatch) {
  Engine engine = this->engine();
  engine.add(request_of({5, kM, kM, kM}, make_sampler(commit_left_to_right(100))));
  engine.add(request_of({5, kM, kM, kM, kM}, make_sampler(every_second(), &extension)));
  engine.step();
  ASSERT_EQ(taken().size(), 1u);
  EXPECT_THAT(taken()[0].positions, testing::ElementsAre(2, 4));
  EXPECT_THAT(taken()[0].of_id_7, testing::ElementsAre(30.07f, 40.07f));  // behind the other's 3
}

TEST_F(RawLogits, ArePickedOutOfAllRowsWhereEveryRowIsScored) {
  Engine engine = this->engine(4);
  engine.add(request_of({5, kM, kM, kM, kM}, make_sampler(every_second(), &extension)));
  engine.step();
  EXPECT_THAT(taken().at(0).positions, testing::ElementsAre(2, 4));
  EXPECT_THAT(taken().at(0).of_id_7, testing::ElementsAre(20.07f, 40.07f));
}

TEST_F(RawLogits, AreAfterGuidance) {
  Engine engine = this->engine();
  engine.add(request_of({5, kM, kM, kM, kM}, make_sampler(every_second(0.5f), &extension)));
  engine.step();
  // Rows 0 and 1 are conditional, 2 and 3 their pairs: u + 1.5 (c - u).
  ASSERT_EQ(taken().at(0).of_id_7.size(), 2u);
  EXPECT_NEAR(taken().at(0).of_id_7[0], 20.07 + 1.5 * (0.07 - 20.07), 1e-4);
  EXPECT_NEAR(taken().at(0).of_id_7[1], 30.07 + 1.5 * (10.07 - 30.07), 1e-4);
}

TEST_F(RawLogits, AnErrorInTakeEndsThatSequenceAlone) {
  Engine engine = this->engine();
  const auto failing =
      engine.add(request_of({5, kM, kM}, make_sampler(every_second(), &extension)));
  const auto other = engine.add(request_of({5, kM, kM}, make_sampler(commit_left_to_right(1))));
  take_fails() = true;
  while (engine.running()) engine.step();
  ASSERT_EQ(engine.result(failing).status, SequenceStatus::failed);
  EXPECT_EQ(engine.result(failing).error->fact(), "too much for me");
  EXPECT_EQ(engine.result(other).status, SequenceStatus::finished);
}

class StatisticsOnly : public FakeModel {
 public:
  void last_logits(std::span<float> out) override { Model::last_logits(out); }
};

TEST_F(RawLogits, AModelThatHasNoneIsNamedAndFailsOnlyWhoAsks) {
  StatisticsOnly model;
  Engine engine(model, {.max_sequences = 2, .max_sequence_length = 8, .max_tokens = 16});
  const auto asking =
      engine.add(request_of({5, kM, kM}, make_sampler(commit_left_to_right(1), &extension)));
  const auto other = engine.add(request_of({5, kM, kM}, make_sampler(commit_left_to_right(1))));
  while (engine.running()) engine.step();
  ASSERT_EQ(engine.result(asking).status, SequenceStatus::failed);
  const Error& error = *engine.result(asking).error;
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.fact(), "this model gives statistics, no whole logits");
  EXPECT_EQ(error.where(), "fake");
  EXPECT_TRUE(taken().empty());
  EXPECT_EQ(engine.result(other).status, SequenceStatus::finished);
}

TEST_F(RawLogits, ATableThatLiesIsRefused) {
  static const dllm_raw_logits_v1 small = {8, 0, &take};
  static const dllm_raw_logits_v1 empty = {sizeof(dllm_raw_logits_v1), 0, nullptr};
  EXPECT_THROW(make_sampler(every_second(), [](const char*) -> const void* { return &small; }),
               Error);
  EXPECT_THROW(make_sampler(every_second(), [](const char*) -> const void* { return &empty; }),
               Error);
}

}  // namespace
}  // namespace dllm::test

// Many sequences in one engine, and guidance pairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dllm/engine.hpp"
#include "script_sampler.hpp"

namespace dllm::test {
namespace {

using ::testing::ElementsAre;

constexpr std::int32_t kM = FakeModel::kMask;
constexpr EngineLimits kLimits{.max_sequences = 3, .max_sequence_length = 64, .max_tokens = 256};

// What a model writes depends on its own sequence: the sum of what stands there.
std::int32_t sum_token(std::uint32_t position, std::span<const std::int32_t> ids) {
  std::int32_t sum = static_cast<std::int32_t>(position);
  for (const std::int32_t id : ids) sum += id;
  return sum % 80;
}

std::vector<std::int32_t> prompt_with_masks(std::size_t prompt, std::size_t masks) {
  std::vector<std::int32_t> ids(prompt + masks, kM);
  for (std::size_t i = 0; i < prompt; ++i) ids[i] = static_cast<std::int32_t>(3 * i % 70);
  return ids;
}

TEST(EngineBatch, EachSequenceEqualsItsSingleRun) {
  const std::vector<std::vector<std::int32_t>> prompts = {
      prompt_with_masks(1, 9), prompt_with_masks(7, 3), prompt_with_masks(40, 5)};
  FakeModel together_model;
  together_model.token = sum_token;
  Engine together(together_model, kLimits);
  std::vector<SequenceId> ids;
  for (const auto& prompt : prompts) {
    ids.push_back(together.add(request_of(prompt, make_sampler(commit_left_to_right(2)))));
  }
  while (together.running()) together.step();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    FakeModel alone_model;
    alone_model.token = sum_token;
    Engine alone(alone_model, kLimits);
    const auto id = alone.add(request_of(prompts[i], make_sampler(commit_left_to_right(2))));
    while (alone.running()) alone.step();
    EXPECT_THAT(together.result(ids[i]).ids, ::testing::ElementsAreArray(alone.result(id).ids));
    EXPECT_EQ(together.result(ids[i]).forwards, alone.result(id).forwards);
  }
}

TEST(EngineBatch, FinishedSequencesStopCosting) {
  FakeModel model;
  Engine engine(model, kLimits);
  engine.add(request_of(prompt_with_masks(2, 1), make_sampler(commit_left_to_right(1))));
  engine.add(request_of(prompt_with_masks(3, 2), make_sampler(commit_left_to_right(1))));
  EXPECT_EQ(engine.step().n_tokens, 8u);
  EXPECT_EQ(engine.step().n_tokens, 5u);
  EXPECT_FALSE(engine.running());
}

TEST(EngineBatch, SequencesComeAndGoBetweenSteps) {
  FakeModel model;
  Engine engine(model, kLimits);
  const auto first =
      engine.add(request_of(prompt_with_masks(2, 4), make_sampler(commit_left_to_right(1))));
  engine.step();
  const auto second =
      engine.add(request_of(prompt_with_masks(1, 2), make_sampler(commit_left_to_right(1))));
  engine.step();
  engine.remove(first);
  while (engine.running()) engine.step();
  EXPECT_EQ(engine.result(second).status, SequenceStatus::finished);
  EXPECT_THROW(engine.result(first), Error);
}

TEST(EngineBatch, GuidanceAddsAPairWithThePromptMasked) {
  FakeModel model;
  Engine engine(model, kLimits);
  Script script = commit_left_to_right(1);
  script.plan = [inner = script.plan](const dllm_canvas& canvas, dllm_plan& plan,
                                      std::vector<std::uint32_t>& positions) {
    inner(canvas, plan, positions);
    plan.guidance_scale = 1.5f;
  };
  const SequenceRequest request = request_of({5, 6, kM, kM}, make_sampler(script));
  EXPECT_EQ(check_request(request, model.info()), 8u);
  engine.add(request);
  engine.step();
  EXPECT_THAT(model.seen_ids, ElementsAre(5, 6, kM, kM, kM, kM, kM, kM));
  ASSERT_EQ(model.seen_slices.size(), 2u);
  ASSERT_EQ(model.seen_requests.size(), 1u);
  EXPECT_TRUE(model.seen_requests[0].guided);
  EXPECT_EQ(model.seen_requests[0].guidance_first_row, 2u);
  engine.step();
  EXPECT_THAT(model.seen_ids, ElementsAre(5, 6, 2, kM, kM, kM, 2, kM))
      << "only the prompt is hidden from the pair, what was committed is not";
}

// Guidance for the steps that have less than `below` positions left.
Script guided_below(std::uint32_t below) {
  Script script = commit_left_to_right(1);
  script.plan = [inner = script.plan, below](const dllm_canvas& canvas, dllm_plan& plan,
                                             std::vector<std::uint32_t>& positions) {
    inner(canvas, plan, positions);
    plan.guidance_scale = positions.size() < below ? 1.5f : 0;
  };
  return script;
}

TEST(EngineBatch, TakesMoreMemoryWhereGuidanceComesLate) {
  FakeModel model;
  Engine engine(model,
                {.max_sequences = 1, .max_sequence_length = 4, .max_tokens = 8, .first_tokens = 4});
  const auto id = engine.add(request_of(prompt_with_masks(1, 3), make_sampler(guided_below(3))));
  EXPECT_EQ(engine.step().n_tokens, 4u);
  EXPECT_EQ(model.limits.max_tokens, 4u);
  EXPECT_EQ(engine.step().n_tokens, 8u);
  EXPECT_EQ(model.limits.max_tokens, 8u);
  while (engine.running()) engine.step();
  EXPECT_EQ(engine.result(id).status, SequenceStatus::finished);
}

TEST(EngineBatch, GoesOnWithTheOthersWhereThatMemoryIsNotThere) {
  FakeModel model;
  model.most_tokens = 8;
  Engine engine(
      model, {.max_sequences = 2, .max_sequence_length = 4, .max_tokens = 16, .first_tokens = 8});
  const auto plain = engine.add(request_of(prompt_with_masks(1, 3), make_sampler(guided_below(0))));
  const auto late = engine.add(request_of(prompt_with_masks(1, 3), make_sampler(guided_below(3))));
  engine.step();
  EXPECT_THROW(engine.step(), Error);
  engine.remove(late);
  while (engine.running()) engine.step();
  EXPECT_EQ(engine.result(plain).status, SequenceStatus::finished);
}

TEST(EngineBatch, RefusesWhatItWasNotMadeFor) {
  FakeModel model;
  Engine engine(model, {.max_sequences = 1, .max_sequence_length = 8, .max_tokens = 8});
  engine.add(request_of({1, kM}, make_sampler(commit_left_to_right(1))));
  EXPECT_THROW(engine.add(request_of({1, kM}, make_sampler(commit_left_to_right(1)))), Error);
}

TEST(EngineBatch, ReservesPairsForEverySequence) {
  FakeModel model;
  Engine engine(model, kLimits);
  EXPECT_EQ(model.limits.max_sequences, 6u);
  EXPECT_EQ(model.limits.max_tokens, 256u);
}

}  // namespace
}  // namespace dllm::test

// The engine trusts no plugin: one test per lie. The liar's sequence ends with an Error that names
// the sampler; the sequence beside it is finished as if alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <stdexcept>

#include "dllm/engine.hpp"
#include "script_sampler.hpp"

namespace dllm::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kM = FakeModel::kMask;

struct Lie {
  const char* name;
  Script script;
  const char* message;
};

void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

using Plan = void (*)(const dllm_canvas&, dllm_plan&, std::vector<std::uint32_t>&);
using Apply = std::uint32_t (*)(const dllm_canvas&, const dllm_stats&, std::vector<dllm_edit>&);

Script lying_plan(Plan plan) {
  Script script = commit_left_to_right(1);
  script.plan = [inner = script.plan, plan](const dllm_canvas& canvas, dllm_plan& out,
                                            std::vector<std::uint32_t>& positions) {
    inner(canvas, out, positions);
    if (canvas.step > 0) plan(canvas, out, positions);
  };
  return script;
}

Script lying_apply(Apply apply) {
  Script script = commit_left_to_right(1);
  script.apply = apply;
  return script;
}

std::vector<Lie> lies() {
  using Positions = std::vector<std::uint32_t>;
  using Edits = std::vector<dllm_edit>;
  return {
      {"position_out_of_range",
       lying_plan([](const dllm_canvas&, dllm_plan&, Positions& p) { p = {77}; }),
       "position 77 is outside the canvas of 4"},
      {"positions_descend",
       lying_plan([](const dllm_canvas&, dllm_plan&, Positions& p) { p = {3, 2}; }),
       "positions must ascend, 2 follows 3"},
      {"position_twice",
       lying_plan([](const dllm_canvas&, dllm_plan&, Positions& p) { p = {2, 2}; }),
       "positions must ascend"},
      {"too_many_positions",
       lying_plan([](const dllm_canvas&, dllm_plan&, Positions& p) { p = {0, 1, 2, 3, 4}; }),
       "5 positions asked for, the canvas has 4"},
      {"unknown_statistics",
       lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) { o.want = 1u << 30; }),
       "unknown statistics bits"},
      {"unknown_flags",
       lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) { o.flags = 8; }),
       "unknown flags"},
      {"unknown_domain",
       lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) { o.domain = 9; }),
       "unknown domain 9"},
      {"temperature_nan", lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) {
         o.temperature = std::numeric_limits<float>::quiet_NaN();
       }),
       "temperature"},
      {"top_p_zero", lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) { o.top_p = 0; }),
       "top_p 0"},
      {"guidance_infinite", lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) {
         o.guidance_scale = std::numeric_limits<float>::infinity();
       }),
       "guidance_scale inf"},
      {"window", lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) { o.window_end = 2; }),
       "windows are reserved"},
      {"suppressed_id_out_of_range", lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) {
         static const std::int32_t ids[] = {4000};
         o.suppress_both = ids;
         o.n_suppress_both = 1;
       }),
       "suppress_both holds id 4000"},
      {"list_without_ids",
       lying_plan([](const dllm_canvas&, dllm_plan& o, Positions&) { o.n_prob_of = 3; }),
       "named 3 ids"},
      {"commits_fixed_position", lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({0, 5, DLLM_EDIT_COMMIT, 0});
         return DLLM_RUN_RUNNING;
       }),
       "edit of position 0: the position is fixed"},
      {"commits_out_of_range", lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({4, 5, DLLM_EDIT_COMMIT, 0});
         return DLLM_RUN_RUNNING;
       }),
       "edit of position 4: the canvas has 4 positions"},
      {"commits_token_beyond_vocabulary",
       lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({2, 92, DLLM_EDIT_COMMIT, 0});
         return DLLM_RUN_RUNNING;
       }),
       "token 92 is outside the vocabulary of 92"},
      {"commits_negative_token", lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({2, -1, DLLM_EDIT_COMMIT, 0});
         return DLLM_RUN_RUNNING;
       }),
       "token -1 is outside"},
      {"commits_the_mask", lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({2, kM, DLLM_EDIT_COMMIT, 0});
         return DLLM_RUN_RUNNING;
       }),
       "token 90 is the mask"},
      {"commits_twice_in_a_step", lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({2, 5, DLLM_EDIT_COMMIT, 0});
         e.push_back({2, 6, DLLM_EDIT_COMMIT, 0});
         return DLLM_RUN_RUNNING;
       }),
       "it is edited twice in one step"},
      {"commits_a_filled_position",
       lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({2, 5, DLLM_EDIT_COMMIT, 0});
         return DLLM_RUN_RUNNING;
       }),
       "commit needs a masked position"},
      {"remasks_a_masked_position",
       lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({2, 5, DLLM_EDIT_REMASK, 0});
         return DLLM_RUN_RUNNING;
       }),
       "remask needs a filled position"},
      {"unknown_edit_kind", lying_apply([](const dllm_canvas&, const dllm_stats&, Edits& e) {
         e.push_back({2, 5, 17, 0});
         return DLLM_RUN_RUNNING;
       }),
       "unknown kind 17"},
      {"reports_an_error",
       lying_apply([](const dllm_canvas&, const dllm_stats&, Edits&) -> std::uint32_t {
         throw std::runtime_error("the dice rolled off the table");
       }),
       "the dice rolled off the table"},
      {"never_commits",
       lying_apply([](const dllm_canvas&, const dllm_stats&, Edits&) { return DLLM_RUN_RUNNING; }),
       "no end after"},
      {"asks_for_nothing_for_ever",
       [] {
         Script script = commit_left_to_right(1);
         script.plan = [](const dllm_canvas&, dllm_plan&, std::vector<std::uint32_t>&) {};
         script.apply = [](const dllm_canvas&, const dllm_stats&, Edits&) {
           return DLLM_RUN_RUNNING;
         };
         return script;
       }(),
       "no end after 0 forwards"},
  };
}

class EngineDistrust : public ::testing::TestWithParam<Lie> {};

TEST_P(EngineDistrust, NamesTheFaultAndGoesOnWithTheOthers) {
  FakeModel model;
  Engine engine(model, {.max_sequences = 2, .max_sequence_length = 8, .max_tokens = 32});
  const auto liar = engine.add(request_of({7, 7, kM, kM}, make_sampler(GetParam().script)));
  const auto honest = engine.add(request_of({7, kM, kM}, make_sampler(commit_left_to_right(1))));
  while (engine.running()) engine.step();

  const SequenceResult result = engine.result(liar);
  ASSERT_EQ(result.status, SequenceStatus::failed);
  EXPECT_THAT(result.error->what(), HasSubstr(GetParam().message));
  EXPECT_THAT(result.error->what(), HasSubstr("script"));
  EXPECT_EQ(engine.result(honest).status, SequenceStatus::finished);
  EXPECT_THAT(engine.result(honest).ids, ::testing::ElementsAre(7, 1, 2));
}

INSTANTIATE_TEST_SUITE_P(Lies, EngineDistrust, ::testing::ValuesIn(lies()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(EngineDistrust, ChecksAllEditsBeforeItWritesAny) {
  FakeModel model;
  Engine engine(model, {.max_sequences = 1, .max_sequence_length = 8, .max_tokens = 8});
  const auto id = engine.add(
      request_of({7, kM, kM}, make_sampler(lying_apply([](const dllm_canvas&, const dllm_stats&,
                                                          std::vector<dllm_edit>& e) {
                   e.push_back({1, 5, DLLM_EDIT_COMMIT, 0});
                   e.push_back({0, 5, DLLM_EDIT_COMMIT, 0});
                   return DLLM_RUN_RUNNING;
                 }))));
  engine.step();
  EXPECT_EQ(engine.result(id).ids[1], kM);
}

}  // namespace
}  // namespace dllm::test

// The shipped samplers as dllm meets them: found by the registry, driven through dllm::Sampler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "dllm/log.hpp"
#include "dllm/plugin.hpp"
#include "dllm/sampler.hpp"
#include "play.hpp"

namespace {

using dllm::test::HostCanvas;
using dllm::test::kMaskId;
using dllm::test::kVocab;

class ShippedSamplers : public testing::TestWithParam<const char*> {
 protected:
  ShippedSamplers() : registry_(log_) {
    const std::filesystem::path folder = DLLM_TEST_PLUGINS;
    registry_.scan({&folder, 1});
  }
  dllm::Log log_;
  dllm::PluginRegistry registry_;
};

TEST_P(ShippedSamplers, AreAcceptedDescribeThemselvesAndFillACanvas) {
  const dllm::PluginRecord& record = registry_.require(dllm::PluginKind::sampler, GetParam());
  EXPECT_FALSE(record.summary.empty());
  for (const dllm::OptionInfo& info : record.options) {
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_FALSE(info.range_text().empty()) << info.name;
  }
  const auto facts = dllm::test::small_facts(kVocab, kMaskId);
  const dllm::Sampler sampler(record.library, record.id, record.sampler, record.options,
                              dllm::check_options(record.options, {}, "sampler"), facts);
  HostCanvas canvas = dllm::test::prompt_and_masks(2, 40);
  dllm::SamplerRun run = sampler.start(canvas.view(), 7);
  for (bool finished = false; !finished;) {
    ASSERT_LT(canvas.step, 40u);
    const dllm_plan plan = run.plan(canvas.view());
    const auto stats = dllm::test::answer(plan, facts, 7, canvas.step, dllm::test::rising_logits);
    const dllm_edits edits = run.apply(canvas.view(), stats.view());
    finished = edits.status == DLLM_RUN_FINISHED;
    dllm::test::write_edits(canvas, edits, kVocab);
  }
  EXPECT_EQ(canvas.n_open(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, ShippedSamplers, testing::Values("llada", "dream"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace

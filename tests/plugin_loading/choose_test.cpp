// Picking a plugin by name: what is said when it is not there, was refused, or cannot run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dllm/error.hpp"
#include "error_of.hpp"
#include "plugin_folder.hpp"

namespace dllm::test {
namespace {

using testing::HasSubstr;

TEST(RequirePlugin, SaysWhatThereIsAndTheNearestMatch) {
  PluginFolder folder;
  folder.add("slow");
  folder.add("fast");
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.require(PluginKind::backend, "slwo"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_usage);
  EXPECT_EQ(error.fact(), "unknown backend 'slwo'");
  EXPECT_THAT(error.where(), HasSubstr(folder.path().string()));
  EXPECT_EQ(error.fix(), "did you mean 'slow'? (available: fast, slow)");
}

TEST(RequirePlugin, SaysWhyTheFileOfThatIdWasRefused) {
  PluginFolder folder;
  folder.add("minor_9");
  const auto path = folder.path() / "minor_9.so";
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.require(PluginKind::sampler, "left_to_right"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_usage);
  EXPECT_EQ(
      error.fact(),
      "sampler 'left_to_right' was refused: built for plugin ABI 1.9, this runtime speaks 1.0");
  EXPECT_EQ(error.where(), path.string());
  EXPECT_EQ(error.fix(), "update dllm, or rebuild against DllmPluginSdk 1.0");
}

TEST(RequirePlugin, SaysWhyAFileNamedAfterTheIdWasRefused) {
  PluginFolder folder;
  write_file(folder.path() / "sampler_mine.so", "text");
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.require(PluginKind::sampler, "mine"); });
  EXPECT_THAT(error.fact(), HasSubstr("'mine' was refused: not an ELF file"));
}

TEST(RequirePlugin, SaysWhereItLookedWhenThereIsNone) {
  PluginFolder folder;
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.require(PluginKind::sampler, "llada"); });
  EXPECT_EQ(error.fact(), "no sampler plugin was found, not even 'llada'");
  EXPECT_EQ(error.where(), "searched " + folder.path().string());
}

TEST(RequireModel, FindsThePluginByAnyOfItsArchitectures) {
  PluginFolder folder;
  folder.add("two_architectures");
  const PluginRegistry& registry = folder.scan();
  EXPECT_EQ(registry.require_model("fake_a").id, "two");
  EXPECT_EQ(registry.require_model("fake_b").id, "two");
}

TEST(RequireModel, NamesTheSupportedArchitectures) {
  PluginFolder folder;
  folder.add("two_architectures");
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.require_model("fake_c"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.fact(), "unsupported architecture 'fake_c' (supported: fake_a, fake_b)");
}

TEST(RequireModel, SaysThatAnAutoregressiveModelIsNoDiffusionModel) {
  PluginFolder folder;
  folder.add("two_architectures");
  const PluginRegistry& registry = folder.scan();
  for (const char* name : {"llama", "qwen2", "qwen3", "mistral3", "gemma", "gemma2", "gpt2", "phi3",
                           "deepseek2", "falcon"}) {
    const Error error = error_of([&] { registry.require_model(name); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.fact(), HasSubstr("an autoregressive model, no diffusion model")) << name;
    EXPECT_THAT(error.fact(), HasSubstr("supported: fake_a, fake_b")) << name;
  }
  for (const char* name : {"llada", "llada-moe", "dream", "unknown"}) {
    const Error error = error_of([&] { registry.require_model(name); });
    EXPECT_THAT(error.fact(), testing::Not(HasSubstr("autoregressive"))) << name;
  }
}

TEST(ChooseBackend, AutoTakesTheUsableOneWithTheHighestPreference) {
  PluginFolder folder;
  for (const char* name : {"absent", "fast", "flaky", "slow"}) folder.add(name);
  const PluginRegistry& registry = folder.scan();
  EXPECT_EQ(registry.choose_backend("auto").id, "fast");
  EXPECT_EQ(registry.choose_backend("slow").id, "slow");
}

TEST(ChooseBackend, ANamedOneThatCannotRunIsAnErrorAndNoFallback) {
  PluginFolder folder;
  for (const char* name : {"absent", "fast", "flaky"}) folder.add(name);
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.choose_backend("absent"); });
  EXPECT_EQ(error.code(), ErrorCode::resource);
  EXPECT_EQ(error.fact(), "backend 'absent' cannot run here: no such device");
  EXPECT_THAT(error_of([&] { registry.choose_backend("flaky"); }).fact(),
              HasSubstr("driver went away"));
}

TEST(ChooseBackend, AutoWithNoneUsableGivesEveryReason) {
  PluginFolder folder;
  folder.add("absent");
  folder.add("flaky");
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.choose_backend("auto"); });
  EXPECT_EQ(error.code(), ErrorCode::resource);
  EXPECT_THAT(error.fact(), HasSubstr("absent: no such device"));
  EXPECT_THAT(error.fact(), HasSubstr("flaky: looking at the machine failed: driver went away"));
}

TEST(ChooseBackend, AutoWithNoPluginAtAllSaysWhereItLooked) {
  PluginFolder folder;
  const PluginRegistry& registry = folder.scan();
  const Error error = error_of([&] { registry.choose_backend("auto"); });
  EXPECT_EQ(error.code(), ErrorCode::resource);
  EXPECT_EQ(error.fact(), "no backend plugin was found");
  EXPECT_THAT(error.where(), HasSubstr(folder.path().string()));
}

TEST(ChooseBackend, AnUnknownNameIsBadUsage) {
  PluginFolder folder;
  folder.add("fast");
  const PluginRegistry& registry = folder.scan();
  EXPECT_EQ(error_of([&] { registry.choose_backend("quick"); }).code(), ErrorCode::bad_usage);
}

}  // namespace
}  // namespace dllm::test

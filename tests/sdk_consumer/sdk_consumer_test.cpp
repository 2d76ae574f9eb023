// Plugins of the outside project in project/: accepted by the registry, and its samplers fill a
// canvas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../engine/fake_model.hpp"
#include "dllm/engine.hpp"
#include "dllm/error.hpp"
#include "dllm/plugin.hpp"

namespace dllm::test {
namespace {

constexpr std::int32_t kM = FakeModel::kMask;

class SdkConsumer : public testing::Test {
 protected:
  SdkConsumer() {
    const std::vector<std::filesystem::path> folders = {DLLM_CONSUMER "/build"};
    registry_.scan(folders);
  }

  SequenceRequest request(const std::string& id,
                          const std::map<std::string, std::string, std::less<>>& options,
                          std::vector<std::int32_t> ids) {
    const PluginRecord& record = registry_.require(PluginKind::sampler, id);
    SequenceRequest request;
    request.facts.struct_size = sizeof request.facts;
    request.facts.n_vocab = FakeModel::kRows;
    request.facts.n_tokens = FakeModel::kTokens;
    request.facts.mask_id = kM;
    request.facts.bos_id = request.facts.eos_id = request.facts.eot_id = request.facts.pad_id = -1;
    request.facts.context_length = 64;
    request.sampler = std::make_shared<Sampler>(
        record.library, record.id, record.sampler, record.options,
        check_options(record.options, options, "sampler " + id), request.facts);
    for (const std::int32_t token : ids) request.editable.push_back(token == kM ? 1 : 0);
    request.ids = std::move(ids);
    return request;
  }

  Log log_;
  PluginRegistry registry_{log_};
};

TEST_F(SdkConsumer, EveryPluginIsAccepted) {
  ASSERT_EQ(registry_.records().size(), 4u);
  for (const PluginRecord& record : registry_.records())
    EXPECT_EQ(record.reason, "") << record.path;
  EXPECT_EQ(registry_.require_model("bigram").id, "bigram");
  EXPECT_EQ(registry_.choose_backend("plain").id, "plain");
}

TEST_F(SdkConsumer, ASamplerInCGenerates) {
  FakeModel model;
  Engine engine(model, {.max_sequences = 1, .max_sequence_length = 64, .max_tokens = 64});
  const SequenceId id = engine.add(request("in_c", {}, {5, kM, 6, kM, kM}));
  while (engine.running()) engine.step();
  const SequenceResult result = engine.result(id);
  ASSERT_EQ(result.status, SequenceStatus::finished) << (result.error ? result.error->what() : "");
  EXPECT_THAT(result.ids, testing::ElementsAre(5, 1, 6, 3, 4));
  EXPECT_EQ(result.forwards, 3u);
}

TEST_F(SdkConsumer, ASamplerInCppGeneratesWithItsOptions) {
  FakeModel model;
  Engine engine(model, {.max_sequences = 1, .max_sequence_length = 64, .max_tokens = 64});
  const SequenceId id = engine.add(request("in_cpp", {{"at-once", "3"}}, {5, kM, kM, kM, kM}));
  while (engine.running()) engine.step();
  EXPECT_THAT(engine.result(id).ids, testing::ElementsAre(5, 1, 2, 3, 4));
  EXPECT_EQ(engine.result(id).forwards, 2u);
}

// The examples of the installed SDK; dice where there was a Rust compiler.
TEST_F(SdkConsumer, TheInstalledExamplesAreAcceptedAndFillACanvas) {
  const std::vector<std::filesystem::path> folders = {DLLM_CONSUMER "/examples"};
  registry_.scan(folders);
  FakeModel model;
  Engine engine(model, {.max_sequences = 8, .max_sequence_length = 64, .max_tokens = 256});
  std::vector<SequenceId> ids;
  for (const std::string name : {"first", "threshold", "margin", "guided", "nsigma", "dice"}) {
    if (name == "dice" && registry_.find(PluginKind::sampler, name) == nullptr) continue;
    ids.push_back(engine.add(request(name, {}, {5, kM, kM, 6, kM, kM})));
  }
  EXPECT_GE(ids.size(), 4u);
  while (engine.running()) engine.step();
  for (const SequenceId id : ids) {
    const SequenceResult result = engine.result(id);
    ASSERT_EQ(result.status, SequenceStatus::finished)
        << (result.error ? result.error->what() : "");
    EXPECT_THAT(result.ids, testing::ElementsAre(5, 1, 2, 6, 4, 5));
  }
}

TEST_F(SdkConsumer, AnOptionItRefusesIsBadUsageWithItsWords) {
  FakeModel model;
  Engine engine(model, {.max_sequences = 1, .max_sequence_length = 64, .max_tokens = 64});
  try {
    engine.add(request("in_cpp", {{"at_once", "9"}}, {5, kM}));
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_usage);
    EXPECT_EQ(error.fact(), "at_once 9 exceeds the canvas of 2");
    EXPECT_EQ(error.where(), "sampler in_cpp");
    EXPECT_EQ(error.fix(), "give a smaller at_once");
  }
}

}  // namespace
}  // namespace dllm::test

// A model factory that names architectures and loads nothing.
#include <array>

#include "dllm/error.hpp"
#include "dllm/model.hpp"
#include "dllm/plugin_entry.hpp"

namespace {

class TestFactory : public dllm::ModelFactory {
 public:
  std::span<const std::string_view> architectures() const override {
    static constexpr std::array<std::string_view, 2> kNames = {"fake_a", "fake_b"};
    return std::span(kNames).first(TEST_N_ARCHITECTURES);
  }
  dllm::ModelInfo describe(const dllm::GgufFile&) const override { return {}; }
  std::unique_ptr<dllm::Model> load(std::shared_ptr<const dllm::GgufFile>, dllm::Backend&,
                                    const dllm::Log&, const dllm::LoadProgress&) const override {
    throw dllm::Error(dllm::ErrorCode::unsupported, "a test factory loads nothing");
  }
};

}  // namespace

DLLM_MODEL_PLUGIN(TEST_ID, "1.0.0", "a model for tests", TestFactory)

// The C++ tier outside dllm's tree: accepted because it carries the installed headers' build tag.
#include "dllm/error.hpp"
#include "dllm/model.hpp"
#include "dllm/plugin_entry.hpp"

namespace {

class Factory : public dllm::ModelFactory {
 public:
  std::span<const std::string_view> architectures() const override { return {&name_, 1}; }
  dllm::ModelInfo describe(const dllm::GgufFile&) const override {
    throw dllm::Error(dllm::ErrorCode::unsupported, "this model only shows that it loads");
  }
  std::unique_ptr<dllm::Model> load(std::shared_ptr<const dllm::GgufFile> file, dllm::Backend&,
                                    const dllm::Log&, const dllm::LoadProgress&) const override {
    describe(*file);
    return nullptr;
  }

 private:
  std::string_view name_ = "outside";
};

}  // namespace

DLLM_MODEL_PLUGIN("outside", "1.0.0", "built outside dllm's tree", Factory)

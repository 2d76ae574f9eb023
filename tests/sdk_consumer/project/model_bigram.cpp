// The smallest model: embedding, RMSNorm, head. What stands at a position is guessed from the token
// that stands there alone. Architecture "bigram"; tensors token_embd.weight, output_norm.weight,
// output.weight as in any GGUF.
#include <algorithm>

#include "dllm/error.hpp"
#include "dllm/model.hpp"
#include "dllm/plugin_entry.hpp"

namespace {

using namespace dllm;

constexpr std::string_view kArchitecture = "bigram";
constexpr float kEps = 1e-5f;

class BigramModel final : public Model {
 public:
  BigramModel(ModelInfo info, std::shared_ptr<const GgufFile> file, Backend& backend)
      : info_(std::move(info)), backend_(backend) {
    const auto load = [&](const char* name, WeightRole role) {
      return backend.import_weight(file, file->tensor(name), role);
    };
    embedding_ = load("token_embd.weight", WeightRole::embedding);
    norm_ = load("output_norm.weight", WeightRole::replicated);
    output_ = load("output.weight", WeightRole::column_split);
  }

  const ModelInfo& info() const override { return info_; }

  void reserve(const BatchLimits& limits) override {
    backend_.reserve({.max_tokens = limits.max_score_rows,
                      .max_score_rows = limits.max_score_rows,
                      .max_sequences = limits.max_sequences,
                      .width = info_.width,
                      .max_cols = info_.width,
                      .ffn_cols = info_.width,
                      .n_vocab = info_.n_vocab,
                      .max_heads = 1,
                      .max_sequence_length = limits.max_sequence_length});
    hidden_ = backend_.make_buffer(limits.max_score_rows, info_.width);
    ids_ = backend_.make_index_list(limits.max_score_rows);
  }

  void forward_stats(const ForwardBatch& batch, std::span<const StatsRequest> requests,
                     HeadStats& stats) override {
    const TensorView hidden = embed(batch);
    backend_.head_stats(hidden, *norm_, kEps, *output_, requests, stats);
  }

  void forward_logits(const ForwardBatch& batch, std::span<float> out) override {
    backend_.logits(embed(batch), *norm_, kEps, *output_, out);
  }

 private:
  // Only the scored rows: no other reaches them.
  TensorView embed(const ForwardBatch& batch) {
    scored_.clear();
    for (const std::uint32_t index : batch.score) scored_.push_back(batch.ids[index]);
    const auto n = static_cast<std::uint32_t>(scored_.size());
    const TensorView hidden = hidden_->rows(n);
    if (n == 0) return hidden;
    ids_->write(scored_);
    backend_.run_step({this, n, n, 1}, [&] { backend_.embed(*embedding_, *ids_, hidden); });
    return hidden;
  }

  ModelInfo info_;
  Backend& backend_;
  std::unique_ptr<Weight> embedding_, norm_, output_;
  std::unique_ptr<Buffer> hidden_;
  std::unique_ptr<IndexList> ids_;
  std::vector<std::int32_t> scored_;
};

class BigramFactory final : public ModelFactory {
 public:
  std::span<const std::string_view> architectures() const override { return {&kArchitecture, 1}; }

  ModelInfo describe(const GgufFile& file) const override {
    const TensorInfo& output = file.tensor("output.weight");
    if (output.shape.size() != 2) {
      throw Error(ErrorCode::bad_file, "tensor is " + output.shape_text() + ", a matrix is needed",
                  "output.weight", "convert the model again");
    }
    ModelInfo info;
    info.architecture = kArchitecture;
    info.name = file.find_string("general.name").value_or("");
    info.width = static_cast<std::uint32_t>(output.shape[0]);
    info.n_vocab = static_cast<std::uint32_t>(output.shape[1]);
    info.context_length = file.get_u32("bigram.context_length");
    info.recommended_sampler = "llada";
    return info;
  }

  std::unique_ptr<Model> load(std::shared_ptr<const GgufFile> file, Backend& backend, const Log&,
                              const LoadProgress&) const override {
    return std::make_unique<BigramModel>(describe(*file), file, backend);
  }
};

}  // namespace

DLLM_MODEL_PLUGIN("bigram", "1.0.0", "the smallest model: embedding and head", BigramFactory)

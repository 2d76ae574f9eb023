#include "dllm/error.hpp"
#include "model_common/text.hpp"
#include "model_common/transformer.hpp"

namespace dllm::model_common {
namespace {

void log_loaded(const Log& log, const HyperParameters& hp) {
  const ModelInfo& info = hp.info;
  if (hp.says_causal) {
    log.warning(info.architecture,
                text(info.architecture, ".attention.causal is true in the file and is ignored: ",
                     "a diffusion model attends in both directions"));
  }
  log.info(info.architecture,
           text(info.n_layers, " layers, width ", info.width, ", ", info.n_heads, " heads (",
                info.n_kv_heads, " key/value) of ", info.head_dim, ", feed-forward ",
                info.ffn_length, ", vocabulary ", info.n_vocab, hp.tied_output ? " (tied)" : "",
                ", logits ", info.shift_logits ? "shifted" : "not shifted"));
}

}  // namespace

ModelInfo TransformerFactory::describe(const GgufFile& file) const {
  return read_hyper_parameters(file, architecture_).info;
}

std::unique_ptr<Model> TransformerFactory::load(std::shared_ptr<const GgufFile> file,
                                                Backend& backend, const Log& log,
                                                const LoadProgress& progress) const {
  HyperParameters hp = read_hyper_parameters(*file, architecture_);
  ModelWeights weights;
  const WeightPlan plan(*file, hp, architecture_, weights);
  plan.check(backend, log);
  log_loaded(log, hp);
  plan.import_weights(file, backend, progress);
  return std::make_unique<Transformer>(std::move(hp), architecture_.rope, std::move(weights),
                                       backend);
}

}  // namespace dllm::model_common

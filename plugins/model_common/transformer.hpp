// The dense diffusion transformer that LLaDA and Dream share, written once in Backend ops.
//
//   class LladaFactory : public TransformerFactory {
//     LladaFactory() : TransformerFactory(kLlada) {}
//   };
//
// Start with run_layers() in transformer.cpp: it reads like the papers. StepLayout
// (step_layout.hpp) turns a ForwardBatch into the index lists that the ops read.
// Thread rule: one thread per model and its backend.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "dllm/model.hpp"
#include "model_common/architecture.hpp"
#include "model_common/hyper_parameters.hpp"
#include "model_common/step_layout.hpp"
#include "model_common/weights.hpp"

namespace dllm::model_common {

class Transformer final : public Model {
 public:
  /// `backend` must outlive the model, and `weights` must be imported into it.
  Transformer(HyperParameters hp, RopeKind rope, ModelWeights weights, Backend& backend);

  const ModelInfo& info() const override { return hp_.info; }
  void reserve(const BatchLimits& limits) override;
  void forward_stats(const ForwardBatch& batch, std::span<const StatsRequest> requests,
                     HeadStats& stats) override;
  void forward_logits(const ForwardBatch& batch, std::span<float> out) override;
  void last_logits(std::span<float> out) override;

 private:
  /// Activations, all f32. T rows of a forward, S scored rows, M the larger of the two.
  struct Activations {
    std::unique_ptr<Buffer> hidden;         ///< [T, E] residual stream
    std::unique_ptr<Buffer> scored_hidden;  ///< [S, E] its scored rows, last layer onwards
    std::unique_ptr<Buffer> q;              ///< [M, H d]
    std::unique_ptr<Buffer> k;              ///< [T, K d]
    std::unique_ptr<Buffer> v;              ///< [T, K d]
    std::unique_ptr<Buffer> attention;      ///< [M, H d]
  };
  /// What the ops read of a step's layout, where the device reads it.
  struct StepLists {
    std::unique_ptr<IndexList> ids;                ///< [T]
    std::unique_ptr<IndexList> positions;          ///< [T]
    std::unique_ptr<IndexList> scored_rows;        ///< [S]
    std::unique_ptr<IndexList> scored_positions;   ///< [S]
    std::unique_ptr<AttentionSpans> all_spans;     ///< queries of every row
    std::unique_ptr<AttentionSpans> scored_spans;  ///< queries of the scored rows
  };

  /// Hidden rows of batch.score, before the output norm; [score.size(), E].
  TensorView forward(const ForwardBatch& batch);
  void logits(TensorView hidden, std::span<float> out);
  void run_layers();
  void run_layer(const LayerWeights& layer);
  void run_last_layer(const LayerWeights& layer);
  void attend(const LayerWeights& layer, TensorView q, const AttentionSpans& spans,
              TensorView residual);
  void feed_forward(const LayerWeights& layer, TensorView residual);
  RopeParams rope_params(std::uint32_t n_heads) const;

  HyperParameters hp_;
  RopeKind rope_;
  ModelWeights weights_;
  Backend& backend_;
  StepLayout layout_;
  Activations act_;
  StepLists lists_;
};

/// ModelFactory of one architecture.
class TransformerFactory : public ModelFactory {
 public:
  explicit TransformerFactory(const Architecture& architecture)
      : architecture_(architecture), names_{architecture.name} {}

  std::span<const std::string_view> architectures() const override { return names_; }
  ModelInfo describe(const GgufFile& file) const override;
  std::unique_ptr<Model> load(std::shared_ptr<const GgufFile> file, Backend& backend,
                              const Log& log, const LoadProgress& progress) const override;

 private:
  Architecture architecture_;
  std::array<std::string_view, 1> names_;
};

}  // namespace dllm::model_common

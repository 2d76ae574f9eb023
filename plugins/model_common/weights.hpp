// The weights of a dense diffusion transformer: which tensors a file must have, their shapes and
// types, and their import into a backend.
//
//   ModelWeights weights;
//   WeightPlan plan(*file, hp, architecture, weights);
//   plan.check(backend, log);                 // every tensor, before anything is imported
//   plan.import_weights(file, backend, progress);  // in file order
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dllm/backend.hpp"
#include "dllm/gguf.hpp"
#include "dllm/log.hpp"
#include "dllm/model.hpp"
#include "model_common/architecture.hpp"
#include "model_common/hyper_parameters.hpp"

namespace dllm::model_common {

/// One transformer block. Shapes in GGUF order: E width, H heads, K key/value heads, d head
/// dimension, F feed-forward length.
struct LayerWeights {
  std::unique_ptr<Weight> attn_norm;    ///< [E]
  std::unique_ptr<Weight> attn_q;       ///< [E, H d]
  std::unique_ptr<Weight> attn_k;       ///< [E, K d]
  std::unique_ptr<Weight> attn_v;       ///< [E, K d]
  std::unique_ptr<Weight> attn_q_bias;  ///< [H d] or null
  std::unique_ptr<Weight> attn_k_bias;  ///< [K d] or null
  std::unique_ptr<Weight> attn_v_bias;  ///< [K d] or null
  std::unique_ptr<Weight> attn_output;  ///< [H d, E]
  std::unique_ptr<Weight> ffn_norm;     ///< [E]
  std::unique_ptr<Weight> ffn_gate;     ///< [E, F]
  std::unique_ptr<Weight> ffn_up;       ///< [E, F]
  std::unique_ptr<Weight> ffn_down;     ///< [F, E]
};

struct ModelWeights {
  std::unique_ptr<Weight> token_embd;   ///< [E, V], looked up by row
  std::unique_ptr<Weight> output_norm;  ///< [E]
  std::unique_ptr<Weight> output;       ///< [E, V]; from token_embd.weight where tied
  std::vector<LayerWeights> layers;
};

/// Which tensor of the file fills which weight. Borrows `weights`, which must outlive it.
class WeightPlan {
 public:
  WeightPlan(const GgufFile& file, const HyperParameters& hp, const Architecture& architecture,
             ModelWeights& weights);

  /// Throws Error (bad_file) for a missing tensor, a wrong shape (naming both shapes) and a vector
  /// that is not finite; Error (unsupported) for a type the backend cannot use and for tensors that
  /// would change the forward pass in a way it does not compute; Error (resource) where the
  /// backend has no room for all of them. Other tensors nobody uses are named in the log.
  void check(const Backend& backend, const Log& log) const;

  /// Imports every tensor, in file order. Bytes in progress are tensor bytes.
  void import_weights(const std::shared_ptr<const GgufFile>& file, Backend& backend,
                      const LoadProgress& progress) const;

 private:
  struct Entry {
    std::string name;
    std::vector<std::uint64_t> shape;
    WeightRole role = WeightRole::replicated;
    Op op = Op::norm_linear;  ///< the operation that reads it
    bool required = true;
    std::unique_ptr<Weight>* slot = nullptr;
    const TensorInfo* tensor = nullptr;  ///< null where absent
  };

  void add(std::string name, std::vector<std::uint64_t> shape, WeightRole role, Op op,
           std::unique_ptr<Weight>& slot, bool required = true);
  void add_layer(std::uint32_t layer, LayerWeights& weights, bool qkv_bias);
  void check_entry(const Entry& entry, const Backend& backend) const;
  void check_optional_together() const;
  void check_unplanned(const TensorInfo& tensor, const Log& log) const;

  const GgufFile& file_;
  const HyperParameters& hp_;
  std::string architecture_;
  std::vector<Entry> entries_;
};

}  // namespace dllm::model_common

// LLaDA: bidirectional LLaMA without biases. Q and K rows are permuted by the converter for
// rotation of adjacent pairs; row i scores position i.
#include "dllm/plugin_entry.hpp"
#include "model_common/transformer.hpp"

namespace {

using dllm::model_common::Architecture;
using dllm::model_common::TransformerFactory;

constexpr Architecture kLlada{.name = "llada",
                              .rope = dllm::RopeKind::norm,
                              .qkv_bias = false,
                              .shift_logits = false,
                              .sampler = "llada"};

class LladaFactory final : public TransformerFactory {
 public:
  LladaFactory() : TransformerFactory(kLlada) {}
};

}  // namespace

DLLM_MODEL_PLUGIN("llada", DLLM_VERSION, "LLaDA masked diffusion models", LladaFactory)

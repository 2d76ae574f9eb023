// Dream: Qwen2.5 made bidirectional, with biases on Q, K and V and grouped key/value heads. It
// keeps the autoregressive alignment: row i - 1 scores position i.
#include "dllm/plugin_entry.hpp"
#include "model_common/transformer.hpp"

namespace {

using dllm::model_common::Architecture;
using dllm::model_common::TransformerFactory;

constexpr Architecture kDream{.name = "dream",
                              .rope = dllm::RopeKind::neox,
                              .qkv_bias = true,
                              .shift_logits = true,
                              .sampler = "dream"};

class DreamFactory final : public TransformerFactory {
 public:
  DreamFactory() : TransformerFactory(kDream) {}
};

}  // namespace

DLLM_MODEL_PLUGIN("dream", DLLM_VERSION, "Dream masked diffusion models", DreamFactory)

// Hyper-parameters of a dense diffusion transformer, from GGUF metadata and tensor shapes.
//
//   HyperParameters hp = read_hyper_parameters(*file, kLlada);
//
// Every value is range-checked here, once; the rest of the model trusts them. Keys and defaults:
// llama.cpp `llama-model.cpp`, load_hparams. Limits that are ours are named in the .cpp file.
#pragma once

#include "dllm/gguf.hpp"
#include "dllm/model.hpp"
#include "model_common/architecture.hpp"

namespace dllm::model_common {

struct HyperParameters {
  ModelInfo info;
  float rms_eps = 0;        ///< added to the mean square, inside the root
  std::uint32_t n_rot = 0;  ///< leading dimensions of a head that rotate
  double rope_theta = 0;
  double rope_scale = 1;     ///< 1 / linear scaling factor
  bool tied_output = false;  ///< output.weight absent: token_embd.weight serves as output
  bool says_causal = false;  ///< attention.causal is true in the file; ignored, worth a log line

  std::uint32_t q_cols() const noexcept { return info.n_heads * info.head_dim; }
  std::uint32_t kv_cols() const noexcept { return info.n_kv_heads * info.head_dim; }
};

/// Reads no weights. Throws Error (bad_file) naming key and value, and both values where two
/// disagree; Error (unsupported) for what is well formed but not built (experts, other rope
/// scalings, value_length != key_length).
HyperParameters read_hyper_parameters(const GgufFile& file, const Architecture& architecture);

}  // namespace dllm::model_common

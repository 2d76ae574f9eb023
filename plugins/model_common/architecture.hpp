// What sets one dense diffusion transformer apart from another: the facts a model plugin states.
#pragma once

#include <string_view>

#include "dllm/backend.hpp"

namespace dllm::model_common {

/// Facts of an architecture that its files do not carry. All views are string literals.
struct Architecture {
  std::string_view name;           ///< value of general.architecture and prefix of its keys
  RopeKind rope = RopeKind::norm;  ///< how the converter left the rows of Q and K
  bool qkv_bias = false;           ///< blk.N.attn_{q,k,v}.bias may exist
  bool shift_logits = false;       ///< where diffusion.shift_logits is absent
  std::string_view sampler;        ///< recommended sampler plugin
};

}  // namespace dllm::model_common

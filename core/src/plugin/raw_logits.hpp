// A sampler's extension "dllm.raw_logits/1", judged.
#pragma once

#include <string>

#include "dllm_sdk/raw_logits_abi.h"

namespace dllm {

/// Null where the sampler takes no whole logits. `fact` says what is malformed about its table,
/// which is then null too. Calls the plugin; what it throws escapes.
const dllm_raw_logits_v1* find_raw_logits(const dllm_sampler_v1& table, std::string& fact);

}  // namespace dllm

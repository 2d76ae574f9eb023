// A sampler's own presets and aliases, read through its extension "dllm.presets/1".
#pragma once

#include <string>
#include <vector>

#include "dllm/options.hpp"
#include "dllm_sdk/sampler_abi.h"

namespace dllm {

struct SamplerPresets {
  std::vector<OptionPreset> presets;
  std::vector<OptionAlias> aliases;
};

/// Copies and checks what the sampler offers; nothing where it has no such extension. Every option
/// and value named must be one of `infos`. Returns the fact of what is malformed, or empty.
std::string read_presets(const dllm_sampler_v1& table, const std::vector<OptionInfo>& infos,
                         SamplerPresets& out);

}  // namespace dllm

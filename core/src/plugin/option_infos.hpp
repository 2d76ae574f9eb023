// Option self-descriptions as they cross the C boundary, checked and copied.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dllm/options.hpp"
#include "dllm_sdk/sampler_abi.h"

namespace dllm {

/// 1 to 64 of a-z, 0-9 and _.
bool is_option_name(std::string_view name);

/// The infos of a sampler, or the fact that makes them malformed: a bad or repeated name, a type
/// out of range, a choice without choices, a default that its own range refuses.
std::variant<std::vector<OptionInfo>, std::string> read_option_infos(const dllm_option_info* infos,
                                                                     std::uint32_t count);

/// The same check for infos that did not cross the C boundary (backends). Empty: well formed.
std::string judge_option_infos(const std::vector<OptionInfo>& infos);

}  // namespace dllm

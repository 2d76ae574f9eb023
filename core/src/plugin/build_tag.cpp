#include "dllm/build_tag.h"

#include "dllm/plugin.hpp"

namespace dllm {

static_assert(sizeof(DLLM_BUILD_TAG) <= sizeof(dllm_plugin_descriptor::tag));

std::string_view build_tag() { return DLLM_BUILD_TAG; }

}  // namespace dllm

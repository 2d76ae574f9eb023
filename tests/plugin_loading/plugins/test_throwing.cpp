// A plugin whose entry lets an exception escape, which the boundary forbids.
#include <stdexcept>

#include "dllm_sdk/plugin_abi.h"

DLLM_PLUGIN_NOTE(DLLM_PLUGIN_KIND_SAMPLER, "throwing", "1.0.0", "", "throws from its entry");

extern "C" const void* dllm_plugin_entry(const dllm_host_v1*, dllm_error*) {
  throw std::runtime_error("no luck today");
}

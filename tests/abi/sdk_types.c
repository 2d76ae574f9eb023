/* One function whose parameters reach every type of the SDK's C headers, so that a dump of this
 * file is a dump of the boundary. */
#include "dllm_sdk/philox.h"
#include "dllm_sdk/plugin_abi.h"
#include "dllm_sdk/presets_abi.h"
#include "dllm_sdk/raw_logits_abi.h"
#include "dllm_sdk/sampler_abi.h"

void dllm_sdk_types(const dllm_plugin_note* note, const dllm_host_v1* host,
                    const dllm_sampler_v1* sampler, const dllm_presets_v1* presets,
                    dllm_plugin_entry_fn entry, const dllm_raw_logits_v1* raw_logits);
void dllm_sdk_types(const dllm_plugin_note* note, const dllm_host_v1* host,
                    const dllm_sampler_v1* sampler, const dllm_presets_v1* presets,
                    dllm_plugin_entry_fn entry, const dllm_raw_logits_v1* raw_logits) {
  (void)note, (void)host, (void)sampler, (void)presets, (void)entry, (void)raw_logits;
}

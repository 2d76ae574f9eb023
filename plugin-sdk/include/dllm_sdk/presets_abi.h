/* Plugin extension "dllm.presets/1" of samplers: named sets of option values, and what spellings of
 * other programs mean here. The command line takes both from the sampler, so it knows no sampler.
 *
 *     static const void* get_extension(const char* name) {
 *       return strcmp(name, DLLM_EXTENSION_PRESETS) == 0 ? &presets : NULL;
 *     }
 *
 * `dllm run --preset NAME` sets a preset's values; options the user gives win. An alias replaces an
 * option and value the user gave by the ones it means. All is static data that lives for ever.
 * Compiles as C11 and C++17, needs only the C standard library. [any thread]
 */
#ifndef DLLM_SDK_PRESETS_ABI_H
#define DLLM_SDK_PRESETS_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLLM_EXTENSION_PRESETS "dllm.presets/1"

typedef struct dllm_preset_value {
  const char* option; /* one of the sampler's own */
  const char* value;  /* text form, within the option's range */
} dllm_preset_value;

typedef struct dllm_preset {
  const char* name; /* [a-z0-9_]+; "reference": what the published code defaults to */
  const char* help; /* one line */
  const dllm_preset_value* values;
  uint32_t n_values;
  uint32_t reserved; /* 0 */
} dllm_preset;

/* "algorithm = 1" of llama.cpp: { "algorithm", "1", "algorithm", "entropy" }. */
typedef struct dllm_option_alias {
  const char* option; /* as typed; need not be an option of the sampler */
  const char* value;
  const char* means_option; /* one of the sampler's own */
  const char* means_value;
} dllm_option_alias;

typedef struct dllm_presets_v1 {
  uint32_t struct_size;
  uint32_t n_presets;
  const dllm_preset* presets;
  const dllm_option_alias* aliases;
  uint32_t n_aliases;
  uint32_t reserved; /* 0 */
} dllm_presets_v1;

#ifdef __cplusplus
}
#endif
#endif

// From settings to checked options of the chosen sampler and backend.
//
//   OptionValues values = sampler_options(registry, record, settings);
//
// `--steps`, `[sampler] steps` and `--set steps=` are one thing here: an option of the sampler. One
// the sampler does not have is refused, naming the samplers that do and what this one takes. Thread
// rule: pure functions, any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "arguments/settings.hpp"
#include "dllm/plugin.hpp"

namespace dllm::cli {

/// All options of the sampler: given, then the preset's, then its own defaults. Throws Error
/// (bad_usage) naming option, value, what is allowed and where it was given.
OptionValues sampler_options(const PluginRegistry& registry, const PluginRecord& sampler,
                             const Settings& settings);
/// Where the model will choose the sampler: throws what every sampler would say to the options
/// given, so that a misspelling is found before the model is read.
void check_sampler_options_of_any(const PluginRegistry& registry, const Settings& settings);

OptionValues backend_options(const PluginRegistry& registry, const PluginRecord& backend,
                             const Settings& settings);

/// The preset --preset names, or null for "default". Throws Error (bad_usage) with the sampler's
/// own presets.
const OptionPreset* chosen_preset(const PluginRecord& sampler, const Settings& settings);

}  // namespace dllm::cli

// Loading a judged plugin file and asking its entry for the table or factory.
#pragma once

#include <filesystem>
#include <memory>

#include "dllm/plugin.hpp"
#include "plugin/plugin_descriptor.hpp"

namespace dllm {

/// Loads record.path, calls its entry and fills the record's table or factory, options and library.
/// Returns why not (empty fact: done). Code of the plugin runs here for the first time; from here
/// on it stays mapped until the process ends, refused or not.
Refusal load_plugin(const dllm_host_v1* host, PluginRecord& record);

}  // namespace dllm

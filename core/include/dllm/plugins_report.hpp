// What `dllm plugins` prints: every file found, accepted or refused and why, with its options.
//
//   std::fputs(plugins_text(runtime.plugins()).c_str(), stdout);
//
// Backends are asked whether they can run on this machine: one that loads and cannot is "ok" with
// its reason. Thread rule: any thread, once the registry has been scanned.
#pragma once

#include <string>

#include "dllm/plugin.hpp"

namespace dllm {

/// For people: samplers, backends, models, then what was refused. Ends with a newline.
std::string plugins_text(const PluginRegistry& registry);

/// One JSON value without a final newline: {"plugins": [{"kind", "id", "version", "path", "status":
/// "ok" | "refused", "reason", "options": [{"name", "type", "default", "range", "help"}], ...}]} in
/// scan order. Also "summary"; of backends "usable", "devices"; of models "architectures".
/// "folders" lists where was searched.
std::string plugins_json(const PluginRegistry& registry);

}  // namespace dllm

// What `dllm plugins` and `dllm --list-devices` print: every file found, accepted or refused and
// why, with its options; every device of the backends.
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

/// A line a device of each accepted backend, or one that says why it cannot run here; empty where
/// there is no backend. Each line ends with a newline.
std::string devices_text(const PluginRegistry& registry);

/// The same as one line of JSON without a final newline: {"backends": [{"backend", "usable",
/// "reason", "devices": [{"name", "isa", "threads", "total_bytes", "available_bytes"}]}]}.
std::string devices_json(const PluginRegistry& registry);

}  // namespace dllm

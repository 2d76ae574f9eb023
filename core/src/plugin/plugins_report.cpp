#include "dllm/plugins_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "plugin/foreign_text.hpp"

namespace dllm {
namespace {

using Json = nlohmann::ordered_json;

Json options_json(const PluginRecord& record) {
  Json list = Json::array();
  for (const OptionInfo& option : record.options) {
    list.push_back({{"name", option.name},
                    {"type", option_type_name(option.type)},
                    {"default", option.default_value},
                    {"range", option.range_text()},
                    {"help", option.help}});
  }
  return list;
}

Json presets_json(const PluginRecord& record) {
  Json list = Json::array();
  for (const OptionPreset& preset : record.presets) {
    list.push_back({{"name", preset.name}, {"help", preset.help}, {"values", preset.values}});
  }
  return list;
}

Json device_list(const std::vector<DeviceInfo>& found) {
  Json devices = Json::array();
  for (const DeviceInfo& device : found) {
    devices.push_back({{"name", device.name},
                       {"isa", device.isa},
                       {"threads", device.threads},
                       {"total_bytes", device.total_bytes},
                       {"available_bytes", device.available_bytes}});
  }
  return devices;
}

void add_backend(const PluginRecord& record, Json& out) {
  const BackendFactory::Probe found = probe_backend(record);
  out["usable"] = found.usable;
  if (!found.usable) out["reason"] = found.reason;
  out["devices"] = device_list(found.devices);
}

Json record_json(const PluginRecord& record) {
  Json out = {{"kind", plugin_kind_name(record.kind)},
              {"id", record.id},
              {"version", record.version},
              {"path", record.path.string()},
              {"status", record.accepted ? "ok" : "refused"},
              {"reason", record.reason},
              {"summary", record.summary},
              {"options", options_json(record)}};
  if (record.sampler != nullptr) out["presets"] = presets_json(record);
  if (record.backend != nullptr) add_backend(record, out);
  if (record.model != nullptr) {
    const auto names = record.model->architectures();
    out["architectures"] = std::vector<std::string>(names.begin(), names.end());
  }
  return out;
}

// File names and devices' are bytes: those that are no UTF-8 become U+FFFD.
std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

using Lines = std::back_insert_iterator<std::string>;

void add_options(const PluginRecord& record, Lines out) {
  std::size_t width = 0;
  for (const OptionInfo& option : record.options) width = std::max(width, option.name.size());
  for (const OptionInfo& option : record.options) {
    fmt::format_to(out, "    {:<{}}  {}, default {}", option.name, width, option.range_text(),
                   option.default_value.empty() ? "empty" : option.default_value);
    if (!option.help.empty()) fmt::format_to(out, "; {}", option.help);
    fmt::format_to(out, "\n");
  }
}

void add_presets(const PluginRecord& record, Lines out) {
  for (const OptionPreset& preset : record.presets) {
    fmt::format_to(out, "    preset {}:", preset.name);
    for (const auto& [option, value] : preset.values) fmt::format_to(out, " {}={}", option, value);
    if (!preset.help.empty()) fmt::format_to(out, "; {}", preset.help);
    fmt::format_to(out, "\n");
  }
}

void add_accepted(const PluginRecord& record, Lines out) {
  fmt::format_to(out, "{} {} {}", plugin_kind_name(record.kind), record.id, record.version);
  if (!record.summary.empty()) fmt::format_to(out, ": {}", record.summary);
  fmt::format_to(out, "\n    from {}\n", printable(record.path.string()));
  if (record.backend != nullptr) {
    const BackendFactory::Probe found = probe_backend(record);
    if (!found.usable) fmt::format_to(out, "    cannot run here: {}\n", printable(found.reason));
    for (const DeviceInfo& device : found.devices) {
      fmt::format_to(out, "    device {}\n", printable(device.name));
    }
  }
  if (record.model != nullptr) {
    const auto names = record.model->architectures();
    fmt::format_to(out, "    architectures {}\n", fmt::join(names.begin(), names.end(), ", "));
  }
  add_options(record, out);
  add_presets(record, out);
}

// "cpu: AMD EPYC, 3.2 of 16.0 GiB free"; memory where the backend says.
void add_devices(const std::string& id, const BackendFactory::Probe& found, Lines out) {
  constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
  if (!found.usable) fmt::format_to(out, "{}: not usable: {}\n", id, printable(found.reason));
  for (const DeviceInfo& device : found.devices) {
    fmt::format_to(out, "{}: {}", id, printable(device.name));
    if (device.total_bytes > 0) {
      fmt::format_to(out, ", {:.1f} of {:.1f} GiB free",
                     static_cast<double>(device.available_bytes) / kGibibyte,
                     static_cast<double>(device.total_bytes) / kGibibyte);
    }
    fmt::format_to(out, "\n");
  }
}

}  // namespace

std::string plugins_text(const PluginRegistry& registry) {
  std::string text;
  const Lines out(text);
  for (const PluginKind kind : {PluginKind::sampler, PluginKind::backend, PluginKind::model}) {
    for (const PluginRecord& record : registry.records()) {
      if (record.accepted && record.kind == kind) add_accepted(record, out);
    }
  }
  for (const PluginRecord& record : registry.records()) {
    if (record.accepted) continue;
    fmt::format_to(out, "refused {}: {}\n", printable(record.path.string()), record.reason);
  }
  if (registry.records().empty()) text = "no plugins were found\n";
  for (const auto& folder : registry.folders()) {
    fmt::format_to(out, "searched {}\n", printable(folder.string()));
  }
  return text;
}

std::string plugins_json(const PluginRegistry& registry) {
  Json out = {{"plugins", Json::array()}, {"folders", Json::array()}};
  for (const PluginRecord& record : registry.records()) {
    out["plugins"].push_back(record_json(record));
  }
  for (const auto& folder : registry.folders()) out["folders"].push_back(folder.string());
  return dump(out, 2);
}

std::string devices_text(const PluginRegistry& registry) {
  std::string text;
  for (const std::string& id : registry.ids(PluginKind::backend)) {
    add_devices(id, probe_backend(registry.require(PluginKind::backend, id)), Lines(text));
  }
  return text;
}

std::string devices_json(const PluginRegistry& registry) {
  Json backends = Json::array();
  for (const std::string& id : registry.ids(PluginKind::backend)) {
    const BackendFactory::Probe found = probe_backend(registry.require(PluginKind::backend, id));
    backends.push_back({{"backend", id},
                        {"usable", found.usable},
                        {"reason", found.reason},
                        {"devices", device_list(found.devices)}});
  }
  return dump({{"backends", std::move(backends)}}, -1);
}

}  // namespace dllm

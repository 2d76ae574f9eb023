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

void add_backend(const PluginRecord& record, Json& out) {
  const BackendFactory::Probe found = probe_backend(record);
  out["usable"] = found.usable;
  if (!found.usable) out["reason"] = found.reason;
  out["devices"] = Json::array();
  for (const DeviceInfo& device : found.devices) {
    out["devices"].push_back({{"name", device.name},
                              {"isa", device.isa},
                              {"threads", device.threads},
                              {"total_bytes", device.total_bytes},
                              {"available_bytes", device.available_bytes}});
  }
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
    if (!found.usable) fmt::format_to(out, "    cannot run here: {}\n", found.reason);
    for (const DeviceInfo& device : found.devices) {
      fmt::format_to(out, "    device {}\n", device.name);
    }
  }
  if (record.model != nullptr) {
    const auto names = record.model->architectures();
    fmt::format_to(out, "    architectures {}\n", fmt::join(names.begin(), names.end(), ", "));
  }
  add_options(record, out);
  add_presets(record, out);
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
  // File names are bytes: those that are no UTF-8 become U+FFFD.
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dllm

// --list-devices: what each backend plugin finds on this machine.
#include <fmt/format.h>

#include "commands/commands.hpp"
#include "output/json.hpp"
#include "session/make_runtime.hpp"

namespace dllm::cli {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

std::string device_lines(const std::string& id, const BackendFactory::Probe& probe) {
  if (!probe.usable) return fmt::format("{}: not usable: {}\n", id, single_line(probe.reason));
  std::string lines;
  for (const DeviceInfo& device : probe.devices) {
    lines += fmt::format("{}: {}", id, single_line(device.name));
    if (device.total_bytes > 0) {
      lines += fmt::format(", {:.1f} of {:.1f} GiB free",
                           static_cast<double>(device.available_bytes) / kGibibyte,
                           static_cast<double>(device.total_bytes) / kGibibyte);
    }
    lines += '\n';
  }
  return lines;
}

Json backend_json(const std::string& id, const BackendFactory::Probe& probe) {
  Json devices = Json::array();
  for (const DeviceInfo& device : probe.devices) {
    devices.push_back({{"name", device.name},
                       {"isa", device.isa},
                       {"threads", device.threads},
                       {"total_bytes", device.total_bytes},
                       {"available_bytes", device.available_bytes}});
  }
  return {
      {"backend", id}, {"usable", probe.usable}, {"reason", probe.reason}, {"devices", devices}};
}

}  // namespace

int list_devices(const Settings& settings, Console& console) {
  const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
  std::string lines;
  Json backends = Json::array();
  for (const std::string& id : runtime->plugins().ids(PluginKind::backend)) {
    const PluginRecord* record = runtime->plugins().find(PluginKind::backend, id);
    DLLM_ASSERT(record != nullptr);
    const BackendFactory::Probe probe = probe_backend(*record);
    lines += device_lines(id, probe);
    backends.push_back(backend_json(id, probe));
  }
  if (backends.empty()) {
    throw Error(ErrorCode::resource, "no backend plugin was found", "--list-devices",
                "`dllm plugins` shows what was searched and refused");
  }
  write_answer(settings.flag("json") ? dump_line(Json{{"backends", backends}}) + "\n" : lines);
  return 0;
}

}  // namespace dllm::cli

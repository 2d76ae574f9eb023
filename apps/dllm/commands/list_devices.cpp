// --list-devices: what each backend plugin finds on this machine.
#include "commands/commands.hpp"
#include "dllm/plugins_report.hpp"
#include "session/make_runtime.hpp"

namespace dllm::cli {

int list_devices(const Settings& settings, Console& console) {
  const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
  const PluginRegistry& plugins = runtime->plugins();
  if (plugins.ids(PluginKind::backend).empty()) {
    throw Error(ErrorCode::resource, "no backend plugin was found", "--list-devices",
                "`dllm plugins` shows what was searched and refused");
  }
  write_answer(settings.flag("json") ? devices_json(plugins) + "\n" : devices_text(plugins));
  return 0;
}

}  // namespace dllm::cli

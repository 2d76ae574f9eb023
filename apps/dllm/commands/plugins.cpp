// dllm plugins: what was found, what was refused and why, every option of samplers and backends.
#include "commands/commands.hpp"
#include "dllm/plugins_report.hpp"
#include "session/make_runtime.hpp"

namespace dllm::cli {

int plugins_command(const Settings& settings, Console& console) {
  const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
  write_answer(settings.flag("json") ? plugins_json(runtime->plugins()) + "\n"
                                     : plugins_text(runtime->plugins()));
  return 0;
}

}  // namespace dllm::cli

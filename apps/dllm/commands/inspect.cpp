// dllm inspect: what a GGUF file says about itself; also of a broken one, as far as it can be read.
#include "dllm/inspect.hpp"

#include "commands/commands.hpp"
#include "session/model_file.hpp"

namespace dllm::cli {

int inspect_command(const Settings& settings, Console&) {
  const GgufScan scan = GgufFile::scan(require_model_path(settings));
  write_answer(settings.flag("json") ? inspect_json(scan) + "\n" : inspect_text(scan));
  if (scan.error) throw Error(*scan.error);
  return 0;
}

}  // namespace dllm::cli

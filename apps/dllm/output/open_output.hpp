// Opens a file that is written to.
#pragma once

#include <fstream>
#include <string>

namespace dllm::cli {

/// Opens `name`, which the user knows as `path` of `option`. Throws Error (bad_usage) with the
/// system's reason, (interrupted) for a signal while it waits for a pipe's reader.
void open_output(std::ofstream& out, const std::string& name, const std::string& path,
                 const std::string& option);

}  // namespace dllm::cli

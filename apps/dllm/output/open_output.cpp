#include "output/open_output.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "dllm/error.hpp"

namespace dllm::cli {

void open_output(std::ofstream& out, const std::string& name, const std::string& path,
                 const std::string& option) {
  errno = 0;
  out.open(name, std::ios::binary | std::ios::trunc);
  if (out) return;
  // A pipe that nobody reads: the handlers of signals that end a run interrupt the wait.
  if (errno == EINTR) {
    throw Error(ErrorCode::interrupted, fmt::format("interrupted while opening '{}'", path), option,
                "give the command again for a result");
  }
  throw Error(ErrorCode::bad_usage,
              fmt::format("cannot write '{}': {}", path, std::strerror(errno)), option,
              "give a file that can be written");
}

}  // namespace dllm::cli

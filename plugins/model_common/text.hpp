// Joining the parts of a message: text("head_count ", 4, " is odd").
#pragma once

#include <sstream>
#include <string>

namespace dllm::model_common {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace dllm::model_common

// JSON as dllm prints it: keys in the order written, valid UTF-8 always.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "dllm/options.hpp"
#include "dllm/plugin.hpp"

namespace dllm::cli {

using Json = nlohmann::ordered_json;

/// One line; ill-formed UTF-8 as U+FFFD.
inline std::string dump_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// {"steps": 32, "temperature": 0.5, "remasking": "random"}: each value in its own type.
Json options_json(const std::vector<OptionInfo>& infos, const OptionValues& values);

}  // namespace dllm::cli

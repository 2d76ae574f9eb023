#include "output/json.hpp"

namespace dllm::cli {

Json options_json(const std::vector<OptionInfo>& infos, const OptionValues& values) {
  Json json = Json::object();
  for (const OptionInfo& info : infos) {
    const auto found = values.find(info.name);
    if (found == values.end()) continue;
    const OptionValue& value = found->second;
    switch (info.type) {
      case OptionType::integer:
        json[info.name] = value.integer;
        break;
      case OptionType::number:
        json[info.name] = value.number;
        break;
      case OptionType::boolean:
        json[info.name] = value.integer != 0;
        break;
      case OptionType::choice:
      case OptionType::text:
        json[info.name] = value.text;
        break;
    }
  }
  return json;
}

}  // namespace dllm::cli

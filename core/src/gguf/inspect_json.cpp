#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "dllm/inspect.hpp"
#include "gguf/inspect_common.hpp"

namespace dllm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxArrayShown = 16;
constexpr std::size_t kMaxStringShown = 65536;

Json float_json(double value, MetadataType type) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (type != MetadataType::f32) return value;
  return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr);
}

Json string_json(std::string_view text) {
  if (text.size() <= kMaxStringShown) return Json(text);
  return {{"type", "string"}, {"bytes", text.size()}, {"first", text.substr(0, kMaxStringShown)}};
}

template <typename T>
Json value_json(const T& value, MetadataType type) {
  if constexpr (std::is_same_v<T, double>) return float_json(value, type);
  if constexpr (std::is_same_v<T, std::string_view>) return string_json(value);
  if constexpr (!std::is_same_v<T, double> && !std::is_same_v<T, std::string_view>) return value;
}

Json array_json(const MetadataArray& array) {
  Json shown = Json::array();
  std::visit(
      [&](const auto& list) {
        using Element = typename std::decay_t<decltype(list)>::value_type;
        for (std::size_t i = 0; i < std::min(list.size(), kMaxArrayShown); ++i) {
          shown.push_back(value_json<Element>(list[i], array.element_type));
        }
      },
      array.values);
  if (array.size() <= kMaxArrayShown) return shown;
  return {{"type", metadata_type_name(array.element_type)},
          {"length", array.size()},
          {"first", std::move(shown)}};
}

Json entry_json(const MetadataEntry& entry) {
  if (const auto* array = std::get_if<MetadataArray>(&entry.value)) return array_json(*array);
  return std::visit(
      [&](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, MetadataArray>) {
          return nullptr;  // answered above
        } else {
          return value_json<T>(value, entry.type);
        }
      },
      entry.value);
}

Json tensor_json(const TensorInfo& tensor, bool split) {
  Json json = {{"name", tensor.name},
               {"type", gguf::type_text(tensor.dtype)},
               {"shape", tensor.shape},
               {"offset", tensor.offset},
               {"bytes", tensor.bytes}};
  if (split) json["part"] = tensor.part;
  return json;
}

Json file_json(const GgufFile& file) {
  const std::vector<GgufPart> parts = file.parts();
  Json json = {{"version", file.version()},       {"alignment", file.alignment()},
               {"file_bytes", file.file_bytes()}, {"parts", Json::array()},
               {"metadata", Json::object()},      {"type_counts", Json::object()},
               {"tensors", Json::array()}};
  for (const GgufPart& part : parts) {
    json["parts"].push_back({{"file", part.path.filename().native()},
                             {"bytes", part.bytes},
                             {"data_start", part.data_start}});
  }
  // Pushed, not looked up: an ordered object searches from its start.
  auto& metadata = json["metadata"].get_ref<Json::object_t&>();
  for (const MetadataEntry& entry : file.metadata()) {
    if (file.find(entry.key) == &entry) metadata.push_back({entry.key, entry_json(entry)});
  }
  for (const auto& [type, use] : gguf::count_types(file)) json["type_counts"][type] = use.tensors;
  for (const TensorInfo& tensor : file.tensors()) {
    json["tensors"].push_back(tensor_json(tensor, parts.size() > 1));
  }
  return json;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

std::string inspect_json(const GgufFile& file) { return dump(file_json(file)); }

std::string inspect_json(const GgufScan& scan) {
  Json json = scan.file ? file_json(*scan.file) : Json::object();
  if (scan.error) json["error"] = scan.error->what();
  return dump(json);
}

}  // namespace dllm

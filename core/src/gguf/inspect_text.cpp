#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "dllm/inspect.hpp"
#include "gguf/fault.hpp"
#include "gguf/inspect_common.hpp"

namespace dllm {
namespace {

constexpr std::size_t kMaxArrayShown = 6;

template <typename T>
std::string value_text(const T& value, MetadataType type) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return gguf::in_quotes(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return type == MetadataType::f32 ? fmt::format("{}", static_cast<float>(value))
                                     : fmt::format("{}", value);
  } else {
    return fmt::format("{}", value);
  }
}

std::string array_text(const MetadataArray& array) {
  return std::visit(
      [&](const auto& list) {
        using Element = typename std::decay_t<decltype(list)>::value_type;
        std::string text;
        for (std::size_t i = 0; i < std::min(list.size(), kMaxArrayShown); ++i) {
          text += (i == 0 ? "" : ", ") + value_text<Element>(list[i], array.element_type);
        }
        return fmt::format("[{}{}]", text, list.size() > kMaxArrayShown ? ", ..." : "");
      },
      array.values);
}

std::string entry_type_text(const MetadataEntry& entry) {
  const auto* array = std::get_if<MetadataArray>(&entry.value);
  if (array == nullptr) return std::string(metadata_type_name(entry.type));
  return fmt::format("{}[{}]", metadata_type_name(array->element_type), array->size());
}

std::string entry_text(const MetadataEntry& entry) {
  return std::visit(
      [&](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, MetadataArray>) {
          return array_text(value);
        } else {
          return value_text<T>(value, entry.type);
        }
      },
      entry.value);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024 * 1024) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

}  // namespace

std::string inspect_text(const GgufFile& file) {
  std::string text;
  const auto out = std::back_inserter(text);
  const std::size_t n_parts = file.parts().size();
  fmt::format_to(out, "GGUF version {}, {}{}, alignment {}\n", file.version(),
                 size_text(file.file_bytes()),
                 n_parts > 1 ? fmt::format(" in {} files", n_parts) : "", file.alignment());
  fmt::format_to(out, "\nmetadata ({} keys)\n", file.metadata().size());
  for (const MetadataEntry& entry : file.metadata()) {
    fmt::format_to(out, "  {:<44} {:<14} {}\n", gguf::one_line(entry.key), entry_type_text(entry),
                   entry_text(entry));
  }
  fmt::format_to(out, "\ntensor types\n");
  for (const auto& [type, use] : gguf::count_types(file)) {
    fmt::format_to(out, "  {:<8} {:>6} tensors {:>14}\n", type, use.tensors, size_text(use.bytes));
  }
  fmt::format_to(out, "\ntensors ({})\n", file.tensors().size());
  for (const TensorInfo& tensor : file.tensors()) {
    fmt::format_to(out, "  {:<40} {:<8} {:<20} {:>12} bytes at {}{}\n", gguf::one_line(tensor.name),
                   gguf::type_text(tensor.dtype), tensor.shape_text(), tensor.bytes, tensor.offset,
                   n_parts > 1 ? fmt::format(" of part {}", tensor.part + 1) : "");
  }
  return text;
}

std::string inspect_text(const GgufScan& scan) { return scan.file ? inspect_text(*scan.file) : ""; }

}  // namespace dllm

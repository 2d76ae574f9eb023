// Typed metadata: every fault names the key, what was found and what was expected.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "gguf/fault.hpp"
#include "gguf/gguf_impl.hpp"

namespace dllm {
namespace {

[[noreturn]] void refuse(const std::string& file, std::string_view key, const std::string& fact,
                         ErrorCode code = ErrorCode::bad_file) {
  throw Error(code, fmt::format("key \"{}\" {}", key, fact), file,
              "convert the model again, or set the key with a GGUF metadata editor");
}

std::string type_text(const MetadataEntry& entry) {
  const auto* array = std::get_if<MetadataArray>(&entry.value);
  if (array == nullptr) return std::string(metadata_type_name(entry.type));
  return fmt::format("array of {}", metadata_type_name(array->element_type));
}

[[noreturn]] void refuse_type(const std::string& file, const MetadataEntry& entry,
                              std::string_view expected) {
  refuse(file, entry.key, fmt::format("is of type {}, expected {}", type_text(entry), expected));
}

template <typename Integer>
std::uint32_t fit_u32(const std::string& file, std::string_view key, Integer value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (static_cast<std::uint64_t>(value) > kMost) {  // a negative value wraps far above
    refuse(file, key, fmt::format("is {}, allowed are 0 to {}", value, kMost));
  }
  return static_cast<std::uint32_t>(value);
}

std::uint32_t u32_of(const std::string& file, const MetadataEntry& entry) {
  if (const auto* u = std::get_if<std::uint64_t>(&entry.value)) return fit_u32(file, entry.key, *u);
  if (const auto* i = std::get_if<std::int64_t>(&entry.value)) return fit_u32(file, entry.key, *i);
  refuse_type(file, entry, "an integer");
}

// The one value of an array of equal integers.
template <typename Integer>
std::uint32_t uniform_of(const std::string& file, std::string_view key,
                         const std::vector<Integer>& values) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] == values[0]) continue;
    refuse(file, key,
           fmt::format("varies by layer ({} in layer 0, {} in layer {}), which is not supported",
                       values[0], values[i], i),
           ErrorCode::unsupported);
  }
  return fit_u32(file, key, values[0]);
}

}  // namespace

std::string_view metadata_type_name(MetadataType type) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool",
                                       "string", "array", "u64", "i64", "f64"});
  const auto index = static_cast<std::size_t>(type);
  DLLM_ASSERT(index < kNames.size());
  return kNames[index];
}

std::size_t MetadataArray::size() const {
  return std::visit([](const auto& list) { return list.size(); }, values);
}

std::uint64_t TensorInfo::n_elements() const noexcept {
  std::uint64_t product = 1;
  for (const std::uint64_t size : shape) product *= size;
  return product;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<std::uint32_t> GgufFile::find_u32(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  return u32_of(impl_->name, *entry);
}

std::uint32_t GgufFile::get_u32(std::string_view key) const {
  const auto value = find_u32(key);
  if (!value) refuse(impl_->name, key, "is missing, expected an integer");
  return *value;
}

std::optional<double> GgufFile::find_float(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* value = std::get_if<double>(&entry->value)) return *value;
  refuse_type(impl_->name, *entry, "a floating-point number");
}

double GgufFile::get_float(std::string_view key) const {
  const auto value = find_float(key);
  if (!value) refuse(impl_->name, key, "is missing, expected a floating-point number");
  return *value;
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* value = std::get_if<bool>(&entry->value)) return *value;
  refuse_type(impl_->name, *entry, "a bool");
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* value = std::get_if<std::string_view>(&entry->value)) return *value;
  refuse_type(impl_->name, *entry, "a string");
}

std::string_view GgufFile::get_string(std::string_view key) const {
  const auto value = find_string(key);
  if (!value) refuse(impl_->name, key, "is missing, expected a string");
  return *value;
}

const MetadataArray* GgufFile::find_array(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return nullptr;
  const auto* array = std::get_if<MetadataArray>(&entry->value);
  if (array == nullptr) refuse_type(impl_->name, *entry, "an array");
  return array;
}

std::optional<std::uint32_t> GgufFile::find_u32_or_uniform_array(std::string_view key,
                                                                 std::size_t n) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  const auto* array = std::get_if<MetadataArray>(&entry->value);
  if (array == nullptr) return u32_of(impl_->name, *entry);
  if (array->size() != n || n == 0) {
    refuse(impl_->name, key,
           fmt::format("is an array of {} values, expected {}", array->size(), n));
  }
  if (const auto* u = std::get_if<std::vector<std::uint64_t>>(&array->values)) {
    return uniform_of(impl_->name, key, *u);
  }
  if (const auto* i = std::get_if<std::vector<std::int64_t>>(&array->values)) {
    return uniform_of(impl_->name, key, *i);
  }
  refuse_type(impl_->name, *entry, "an integer or an array of integers");
}

}  // namespace dllm

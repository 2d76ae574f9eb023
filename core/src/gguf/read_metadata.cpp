#include <fmt/format.h>

#include <type_traits>

#include "gguf/name_order.hpp"
#include "gguf/part.hpp"

namespace dllm::gguf {
namespace {

// Calls `f(T{})` with the C++ type that holds a number of this type in the file.
template <typename F>
decltype(auto) with_number_type(MetadataType type, const F& f) {
  switch (type) {
    case MetadataType::u8:
      return f(std::uint8_t{});
    case MetadataType::i8:
      return f(std::int8_t{});
    case MetadataType::u16:
      return f(std::uint16_t{});
    case MetadataType::i16:
      return f(std::int16_t{});
    case MetadataType::u32:
      return f(std::uint32_t{});
    case MetadataType::i32:
      return f(std::int32_t{});
    case MetadataType::f32:
      return f(float{});
    case MetadataType::u64:
      return f(std::uint64_t{});
    case MetadataType::i64:
      return f(std::int64_t{});
    default:
      return f(double{});
  }
}

// The widest type of the same kind: what the value is kept as.
template <typename T>
using Wide =
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

std::uint64_t smallest_bytes(MetadataType type) {
  if (type == MetadataType::boolean) return 1;
  if (type == MetadataType::string) return 8;  // the length alone
  return with_number_type(type, [](auto zero) -> std::uint64_t { return sizeof zero; });
}

bool read_bool(Cursor& cursor) {
  const auto byte = cursor.read<std::uint8_t>("the value");
  if (byte > 1) throw cursor.fault(fmt::format("a bool is {}, allowed are 0 and 1", byte));
  return byte != 0;
}

MetadataType read_type(Cursor& cursor, std::string_view field) {
  const auto raw = cursor.read<std::uint32_t>(field);
  if (raw > static_cast<std::uint32_t>(MetadataType::f64)) {
    throw cursor.fault(fmt::format("{} is {}, known are 0 to 12", field, raw));
  }
  return static_cast<MetadataType>(raw);
}

void check_array_count(const Cursor& cursor, MetadataType type, std::uint64_t count,
                       std::uint64_t elements_left) {
  const std::uint64_t fits = cursor.remaining() / smallest_bytes(type);
  if (count > fits) {
    throw cursor.fault(fmt::format(
        "the array has {} elements of type {}, the {} bytes left in the file hold at most {}",
        count, metadata_type_name(type), cursor.remaining(), fits));
  }
  if (count > elements_left) {
    throw cursor.fault(fmt::format("the array has {} elements, all arrays of a file may have {}",
                                   count, kMaxArrayElements),
                       "check the file; no known model needs that many");
  }
}

template <typename Element, typename Read>
std::vector<Element> read_elements(std::uint64_t count, const Read& read) {
  std::vector<Element> values;
  values.reserve(count);  // at most what the rest of the file holds
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(read());
  return values;
}

MetadataArray read_array(Cursor& cursor, std::uint64_t& elements_left) {
  MetadataArray array;
  array.element_type = read_type(cursor, "the array's element type");
  if (array.element_type == MetadataType::array) {
    throw cursor.fault("the value is an array of arrays, which GGUF readers do not support",
                       "convert the model without nested arrays");
  }
  const auto count = cursor.read<std::uint64_t>("the array's length");
  check_array_count(cursor, array.element_type, count, elements_left);
  elements_left -= count;
  if (array.element_type == MetadataType::string) {
    array.values = read_elements<std::string_view>(
        count, [&] { return cursor.read_string("a string of the array"); });
  } else if (array.element_type == MetadataType::boolean) {
    array.values = read_elements<bool>(count, [&] { return read_bool(cursor); });
  } else {
    with_number_type(array.element_type, [&](auto zero) {
      using Number = decltype(zero);
      array.values = read_elements<Wide<Number>>(
          count, [&] { return Wide<Number>{cursor.read<Number>("an array element")}; });
    });
  }
  return array;
}

void read_value(Cursor& cursor, MetadataEntry& entry, std::uint64_t& elements_left) {
  switch (entry.type) {
    case MetadataType::string:
      entry.value = cursor.read_string("the string");
      return;
    case MetadataType::boolean:
      entry.value = read_bool(cursor);
      return;
    case MetadataType::array:
      entry.value = read_array(cursor, elements_left);
      return;
    default:
      with_number_type(entry.type, [&](auto zero) {
        using Number = decltype(zero);
        entry.value = Wide<Number>{cursor.read<Number>("the value")};
      });
  }
}

MetadataEntry read_entry(Cursor& cursor, std::uint64_t index, std::uint64_t& elements_left) {
  cursor.begin_item(fmt::format("metadata entry {}", index));
  MetadataEntry entry;
  const std::string_view key = cursor.read_string("the key");
  if (key.empty()) throw cursor.fault("the key is empty");
  if (key.size() > kMaxKeyBytes) {
    throw cursor.fault(
        fmt::format("the key is {} bytes long, the limit is {}", key.size(), kMaxKeyBytes));
  }
  entry.key = key;
  cursor.rename_item("key " + in_quotes(key));
  entry.type = read_type(cursor, "the value type");
  read_value(cursor, entry, elements_left);
  return entry;
}

}  // namespace

void read_metadata(Cursor& cursor, std::uint64_t n_keys, Part& part, Faults& faults) {
  std::uint64_t elements_left = kMaxArrayElements;
  for (std::uint64_t i = 0; i < std::min(n_keys, kMaxKeys); ++i) {
    part.metadata.push_back(read_entry(cursor, i, elements_left));
  }
  const auto key_of = [&](std::uint32_t i) -> std::string_view { return part.metadata[i].key; };
  const auto twice = find_duplicate(order_by_name(part.metadata.size(), key_of), key_of);
  if (!twice) return;
  cursor.begin_item("end of the metadata");
  faults.report(
      cursor.fault(fmt::format("key {} occurs twice, as entry {} and entry {}",
                               in_quotes(key_of(twice->first)), twice->first, twice->second),
                   "convert the model again"));
}

}  // namespace dllm::gguf

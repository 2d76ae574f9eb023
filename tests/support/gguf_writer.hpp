// Tiny GGUF files for tests, correct ones and every kind of broken one.
//
//   GgufWriter writer;
//   writer.set("general.architecture", "llada").set("llada.block_count", std::uint32_t{2});
//   writer.set_array<std::int32_t>("tokenizer.ggml.token_type", {1, 1, 3});
//   writer.add_tensor("output.weight", DType::f32, {4, 2}, std::vector<float>(8, 1.0F));
//   writer.write(folder.path() / "model.gguf");  // a TemporaryDirectory
//
// To make a file lie, overwrite a field before writing: `writer.n_tensors = 1ULL << 60`,
// `writer.tensor("output.weight").offset = 7`, or patch the bytes that to_bytes() returns.
// Layout: gguf.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dllm/dtype.hpp"
#include "dllm/gguf.hpp"
#include "temporary_files.hpp"

namespace dllm::test {

/// Bytes in file order.
class ByteSink {
 public:
  template <typename T>
  ByteSink& put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* begin = reinterpret_cast<const char*>(&value);
    bytes_.append(begin, sizeof value);
    return *this;
  }
  ByteSink& put_raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  ByteSink& put_string(std::string_view text) {
    put<std::uint64_t>(text.size());
    return put_raw(text);
  }
  ByteSink& pad_to(std::uint64_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back('\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

template <typename T>
constexpr MetadataType metadata_type_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return MetadataType::boolean;
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? MetadataType::f32 : MetadataType::f64;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr bool kSigned = std::is_signed_v<T>;
    if (sizeof(T) == 1) return kSigned ? MetadataType::i8 : MetadataType::u8;
    if (sizeof(T) == 2) return kSigned ? MetadataType::i16 : MetadataType::u16;
    if (sizeof(T) == 4) return kSigned ? MetadataType::i32 : MetadataType::u32;
    return kSigned ? MetadataType::i64 : MetadataType::u64;
  } else {
    static_assert(std::is_convertible_v<T, std::string_view>);
    return MetadataType::string;
  }
}

class GgufWriter {
 public:
  struct Entry {
    std::string key;
    std::uint32_t type = 0;  ///< value type id
    std::string value;       ///< its bytes
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint32_t type = 0;
    std::string data;
    std::optional<std::uint64_t> offset;  ///< default: the next aligned one
    std::optional<std::uint32_t> n_dims;  ///< default: shape.size(); written before the shape
  };

  // What the file says; unset counts are the true ones.
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> n_tensors;
  std::optional<std::uint64_t> n_keys;
  /// Where tensor data is put; also write `general.alignment` with set() for a reader to know.
  std::uint64_t alignment = 32;
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;

  /// A scalar; the type is the argument's: bool, (u)int8..64, float, double, any string.
  template <typename T>
  GgufWriter& set(std::string key, const T& value) {
    ByteSink sink;
    put_value(sink, value);
    return set_raw(std::move(key), static_cast<std::uint32_t>(metadata_type_of<std::decay_t<T>>()),
                   sink.bytes());
  }

  template <typename T>
  GgufWriter& set_array(std::string key, const std::vector<T>& values) {
    ByteSink sink;
    sink.put(static_cast<std::uint32_t>(metadata_type_of<T>()));
    sink.put<std::uint64_t>(values.size());
    for (const auto& value : values) put_value<T>(sink, value);
    return set_raw(std::move(key), static_cast<std::uint32_t>(MetadataType::array), sink.bytes());
  }

  /// Any type id with any bytes. A key that is set again is written twice.
  GgufWriter& set_raw(std::string key, std::uint32_t type, std::string value) {
    entries.push_back({std::move(key), type, std::move(value)});
    return *this;
  }

  /// Raw blocks; `shape` in GGUF order (row length first).
  GgufWriter& add_tensor(std::string name, DType dtype, std::vector<std::uint64_t> shape,
                         std::span<const std::byte> data) {
    tensors.push_back({std::move(name), std::move(shape), static_cast<std::uint32_t>(dtype),
                       std::string(reinterpret_cast<const char*>(data.data()), data.size()),
                       std::nullopt, std::nullopt});
    return *this;
  }
  GgufWriter& add_tensor(std::string name, DType dtype, std::vector<std::uint64_t> shape,
                         const std::vector<float>& values) {
    return add_tensor(std::move(name), dtype, std::move(shape), std::as_bytes(std::span(values)));
  }
  /// Zero bytes of the right size.
  GgufWriter& add_zeros(std::string name, DType dtype, std::vector<std::uint64_t> shape) {
    std::uint64_t bytes = row_bytes(dtype, shape.at(0));
    for (std::size_t i = 1; i < shape.size(); ++i) bytes *= shape[i];
    return add_tensor(std::move(name), dtype, std::move(shape), std::vector<std::byte>(bytes));
  }

  Tensor& tensor(std::string_view name) {
    for (Tensor& each : tensors) {
      if (each.name == name) return each;
    }
    throw std::out_of_range("no tensor " + std::string(name));
  }

  std::string to_bytes() const {
    ByteSink sink;
    sink.put_raw(magic).put(version);
    sink.put<std::uint64_t>(n_tensors.value_or(tensors.size()));
    sink.put<std::uint64_t>(n_keys.value_or(entries.size()));
    for (const Entry& entry : entries) {
      sink.put_string(entry.key).put(entry.type).put_raw(entry.value);
    }
    std::uint64_t next_offset = 0;
    for (const Tensor& each : tensors) {
      sink.put_string(each.name);
      sink.put<std::uint32_t>(each.n_dims.value_or(static_cast<std::uint32_t>(each.shape.size())));
      for (const std::uint64_t size : each.shape) sink.put(size);
      sink.put(each.type).put<std::uint64_t>(each.offset.value_or(next_offset));
      next_offset += (each.data.size() + alignment - 1) / alignment * alignment;
    }
    if (!tensors.empty()) sink.pad_to(alignment);
    for (const Tensor& each : tensors) sink.put_raw(each.data).pad_to(alignment);
    return sink.bytes();
  }

  void write(const std::filesystem::path& path) const { write_file(path, to_bytes()); }

 private:
  template <typename T>
  static void put_value(ByteSink& sink, const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      sink.put<std::uint8_t>(value ? 1 : 0);
    } else if constexpr (std::is_arithmetic_v<T>) {
      sink.put(value);
    } else {
      sink.put_string(value);
    }
  }
};

}  // namespace dllm::test

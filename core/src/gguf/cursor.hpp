// A bounds-checked read position in a GGUF file.
//
//   Cursor cursor(bytes, "model.gguf");
//   cursor.begin_item("key 3");
//   auto n = cursor.read<std::uint64_t>("key length");   // throws Error (bad_file) past the end
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "dllm/error.hpp"

namespace dllm::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF fields are read as they lie");

class Cursor {
 public:
  /// `bytes` must outlive the cursor and every string it returns; `file` is the name for messages.
  Cursor(std::span<const std::byte> bytes, std::string file)
      : bytes_(bytes), file_(std::move(file)) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }
  std::uint64_t file_bytes() const { return bytes_.size(); }

  /// Names what is read from here on; faults carry the name and the byte where it starts.
  void begin_item(std::string item);
  /// A better name for the same item, once it is known.
  void rename_item(std::string item) { item_ = std::move(item); }

  /// `field` names the value in the message when the file ends inside it.
  template <typename T>
  T read(std::string_view field) {
    T value;
    require(sizeof value, field);
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  /// u64 length and bytes; the view points into the file.
  std::string_view read_string(std::string_view field);

  /// Error (bad_file) at the current item.
  Error fault(std::string fact, std::string fix = {}) const;

 private:
  void require(std::uint64_t n_bytes, std::string_view field) const;

  std::span<const std::byte> bytes_;
  std::string file_;
  std::uint64_t position_ = 0;
  std::string item_ = "header";
  std::uint64_t item_start_ = 0;
};

}  // namespace dllm::gguf

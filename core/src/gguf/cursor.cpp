#include "gguf/cursor.hpp"

#include <fmt/format.h>

#include <utility>

namespace dllm::gguf {

void Cursor::begin_item(std::string item) {
  item_ = std::move(item);
  item_start_ = position_;
}

std::string_view Cursor::read_string(std::string_view field) {
  const auto length = read<std::uint64_t>(field);
  if (length > remaining()) {
    throw fault(
        fmt::format("{} is {} bytes long, the file has {} bytes left", field, length, remaining()));
  }
  const auto* begin = reinterpret_cast<const char*>(bytes_.data() + position_);
  position_ += length;
  return {begin, static_cast<std::size_t>(length)};
}

Error Cursor::fault(std::string fact, std::string fix) const {
  if (fix.empty()) fix = "the file is damaged or incomplete: download or convert it again";
  return {ErrorCode::bad_file, std::move(fact),
          fmt::format("{}, {} at byte {}", file_, item_, item_start_), std::move(fix)};
}

void Cursor::require(std::uint64_t n_bytes, std::string_view field) const {
  if (n_bytes <= remaining()) return;
  throw fault(fmt::format("the file ends inside {}: {} bytes needed, {} left", field, n_bytes,
                          remaining()));
}

}  // namespace dllm::gguf

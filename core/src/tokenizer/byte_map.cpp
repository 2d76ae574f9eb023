#include "tokenizer/byte_map.hpp"

#include <array>

#include "base/utf8.hpp"

namespace dllm::tokenizing {
namespace {

constexpr int kShiftedBytes = 68;

constexpr bool prints_as_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr auto kByteOfCodePoint = [] {
  std::array<std::int16_t, 0x100 + kShiftedBytes> table{};
  table.fill(-1);
  std::size_t next_shifted = 0x100;
  for (int byte = 0; byte < 0x100; ++byte) {
    const std::size_t code_point =
        prints_as_itself(byte) ? static_cast<std::size_t>(byte) : next_shifted++;
    table[code_point] = static_cast<std::int16_t>(byte);
  }
  return table;
}();
static_assert(kByteOfCodePoint['a'] == 'a' && kByteOfCodePoint[0x120] == ' ' &&
              kByteOfCodePoint[0x143] == 0xAD);

}  // namespace

int byte_of_code_point(std::uint32_t code_point) {
  return code_point < kByteOfCodePoint.size() ? kByteOfCodePoint[code_point] : -1;
}

bool bytes_of_token_text(std::string_view text, std::string& bytes) {
  bool all_mapped = true;
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    const int byte = step.kind == Utf8Kind::character ? byte_of_code_point(step.code_point) : -1;
    if (byte >= 0) {
      bytes.push_back(static_cast<char>(byte));
    } else {
      bytes.append(text.substr(0, step.size));
      all_mapped = false;
    }
    text.remove_prefix(step.size);
  }
  return all_mapped;
}

}  // namespace dllm::tokenizing

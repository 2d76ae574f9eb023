#include "tokenizer/normalize.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "dllm/error.hpp"

namespace dllm::tokenizing {
namespace {

// U+0000..U+02FF never change and never combine with what is before them; their lead bytes are
// below 0xCC.
bool is_below_combining_marks(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
}

void append_decomposed(std::uint32_t code_point, std::vector<utf8proc_int32_t>& out) {
  utf8proc_int32_t parts[32];  // the longest canonical decomposition has 4
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, 32,
                                             UTF8PROC_DECOMPOSE, &boundary);
  DLLM_ASSERT(count > 0 && count <= 32);
  out.insert(out.end(), parts, parts + count);
}

std::uint64_t combining_class(utf8proc_int32_t code_point) {
  return static_cast<std::uint64_t>(utf8proc_get_property(code_point)->combining_class);
}

// Runs of combining marks in the order of their class, equal classes as they were. utf8proc's own
// ordering is an insertion sort: quadratic on a megabyte of alternating marks.
void order_marks(std::vector<utf8proc_int32_t>& code_points) {
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
  std::vector<std::pair<std::uint64_t, utf8proc_int32_t>> run;  // class and place, code point
  auto begin = code_points.begin();
  while ((begin = std::find_if_not(begin, code_points.end(), is_starter)) != code_points.end()) {
    const auto end = std::find_if(begin, code_points.end(), is_starter);
    run.clear();
    for (auto at = begin; at != end; ++at) {
      run.emplace_back(combining_class(*at) << 56 | run.size(), *at);
    }
    std::sort(run.begin(), run.end());
    for (const auto& mark : run) *begin++ = mark.second;
  }
}

}  // namespace

std::string_view nfc(std::string_view text, std::string& storage) {
  if (is_below_combining_marks(text)) return text;
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    append_decomposed(step.code_point, code_points);
    text.remove_prefix(step.size);
  }
  order_marks(code_points);
  const auto length = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  DLLM_ASSERT(length >= 0);
  storage.clear();
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    append_utf8(storage, static_cast<std::uint32_t>(code_points[static_cast<std::size_t>(i)]));
  }
  return storage;
}

}  // namespace dllm::tokenizing

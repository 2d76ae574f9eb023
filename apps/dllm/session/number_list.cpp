#include "session/number_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

// Brackets count as separators, so a list copied from JSON works.
constexpr std::string_view kSeparators = ", \t\n[]";

// "1,,2" may lack a number: a comma has something on both sides.
void refuse_empty_items(std::string_view text, const std::string& option) {
  std::string packed(text);  // without white space and brackets
  std::erase_if(packed, [](char c) { return kSeparators.substr(1).find(c) != kSeparators.npos; });
  if (packed.find(",,") == packed.npos && !packed.starts_with(',') && !packed.ends_with(','))
    return;
  throw Error(ErrorCode::bad_usage, fmt::format("the list '{}' has an empty item", text), option,
              "write a number between commas, or one comma less");
}

std::vector<std::string_view> split_list(std::string_view text, const std::string& option) {
  refuse_empty_items(text, option);
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return parts;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(kSeparators), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::optional<std::int32_t> parse_number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const std::string& option, std::string_view part,
                         std::string_view allowed) {
  throw Error(ErrorCode::bad_usage, fmt::format("'{}' is not allowed", part), option,
              fmt::format("give {}", allowed));
}

std::uint32_t parse_row(std::string_view text, std::string_view part, std::uint32_t n_rows,
                        const std::string& option) {
  const auto row = parse_number(text);
  if (!row || static_cast<std::uint32_t>(*row) >= n_rows) {
    refuse(option, part, fmt::format("rows from 0 to {}", n_rows - 1));
  }
  return static_cast<std::uint32_t>(*row);
}

}  // namespace

std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& option) {
  std::vector<std::int32_t> ids;
  for (const std::string_view part : split_list(text, option)) {
    const auto id = parse_number(part);
    if (!id) refuse(option, part, "token ids, integers from 0: \"1,2,3\"");
    ids.push_back(*id);
  }
  return ids;
}

std::vector<std::uint32_t> parse_rows(std::string_view text, std::uint32_t n_rows,
                                      const std::string& option) {
  std::vector<std::uint32_t> rows;
  for (const std::string_view part : split_list(text, option)) {
    const std::size_t dash = part.find('-', 1);
    const std::uint32_t first = parse_row(part.substr(0, dash), part, n_rows, option);
    const std::uint32_t last = dash == std::string_view::npos
                                   ? first
                                   : parse_row(part.substr(dash + 1), part, n_rows, option);
    if (last < first) refuse(option, part, "a range whose end is not before its start");
    for (std::uint32_t row = first; row <= last; ++row) rows.push_back(row);
  }
  if (rows.empty()) refuse(option, text, fmt::format("rows from 0 to {}", n_rows - 1));
  return rows;
}

}  // namespace dllm::cli

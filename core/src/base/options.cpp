#include "dllm/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "dllm/error.hpp"

namespace dllm {
namespace {

std::string number_text(double value) {
  // Up to 2^53 every integer is exact, so it is shown as one types it.
  constexpr double kExact = 9007199254740992.0;
  if (value == std::floor(value) && std::abs(value) <= kExact) return fmt::format("{:.0f}", value);
  return fmt::format("{:g}", value);
}

// `_` and `-` are equal in option names; infos use `_`.
std::string canonical_name(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '-', '_');
  return out;
}

// The whole text or nothing: "8x", " 8", "+-8" and "" are no numbers.
template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  return std::nullopt;
}

bool in_range(const OptionInfo& info, double value) {
  if (std::isnan(value)) return false;
  const bool above = info.minimum_exclusive ? value > info.minimum : value >= info.minimum;
  const bool below = info.maximum_exclusive ? value < info.maximum : value <= info.maximum;
  return above && below;
}

[[noreturn]] void refuse_value(const OptionInfo& info, std::string_view text,
                               std::string_view owner) {
  std::string fix = fmt::format("give {}", info.range_text());
  if (info.type == OptionType::choice) {
    const std::string near = nearest_match(text, info.choices);
    if (!near.empty()) fix += fmt::format("; did you mean '{}'?", near);
  }
  throw Error(ErrorCode::bad_usage, fmt::format("option {}: '{}' is not allowed", info.name, text),
              std::string(owner), fix);
}

// Letters added, left out, changed, or swapped with their neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = last[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({last[j + 1] + 1, row[j] + 1, change});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view option_type_name(OptionType type) {
  switch (type) {
    case OptionType::integer:
      return "integer";
    case OptionType::number:
      return "number";
    case OptionType::boolean:
      return "boolean";
    case OptionType::choice:
      return "choice";
    case OptionType::text:
      return "text";
  }
  return "text";
}

std::string OptionInfo::range_text() const {
  switch (type) {
    case OptionType::boolean:
      return "true | false";
    case OptionType::choice:
      return fmt::format("{}", fmt::join(choices, " | "));
    case OptionType::text:
      return "text";
    case OptionType::integer:
    case OptionType::number:
      break;
  }
  const std::string kind(type == OptionType::integer ? "an integer" : "a number");
  const bool low = std::isfinite(minimum);
  const bool high = std::isfinite(maximum);
  const std::string low_text =
      low ? fmt::format("{}{}", minimum_exclusive ? "above " : "", number_text(minimum)) : "";
  const std::string high_text =
      high ? fmt::format("{}{}", maximum_exclusive ? "below " : "", number_text(maximum)) : "";
  if (low && high) return fmt::format("{} from {} to {}", kind, low_text, high_text);
  if (low) {
    return minimum_exclusive ? fmt::format("{} {}", kind, low_text)
                             : fmt::format("{} of at least {}", kind, low_text);
  }
  if (high) {
    return maximum_exclusive ? fmt::format("{} {}", kind, high_text)
                             : fmt::format("{} of at most {}", kind, high_text);
  }
  return kind;
}

OptionValue parse_option(const OptionInfo& info, std::string_view text, std::string_view owner) {
  OptionValue value;
  value.text = std::string(text);
  switch (info.type) {
    case OptionType::integer: {
      const auto parsed = parse_whole<std::int64_t>(text);
      if (!parsed || !in_range(info, static_cast<double>(*parsed))) refuse_value(info, text, owner);
      value.integer = *parsed;
      value.number = static_cast<double>(*parsed);
      value.text = fmt::format("{}", *parsed);
      break;
    }
    case OptionType::number: {
      const auto parsed = parse_whole<double>(text);
      if (!parsed || !std::isfinite(*parsed) || !in_range(info, *parsed)) {
        refuse_value(info, text, owner);
      }
      value.number = *parsed;
      value.text = fmt::format("{}", *parsed);
      break;
    }
    case OptionType::boolean: {
      const auto parsed = parse_boolean(text);
      if (!parsed) refuse_value(info, text, owner);
      value.integer = *parsed ? 1 : 0;
      value.text = *parsed ? "true" : "false";
      break;
    }
    case OptionType::choice:
      if (std::ranges::find(info.choices, text) == info.choices.end()) {
        refuse_value(info, text, owner);
      }
      break;
    case OptionType::text:
      break;
  }
  return value;
}

OptionValues check_options(std::span<const OptionInfo> infos,
                           const std::map<std::string, std::string, std::less<>>& given,
                           std::string_view owner) {
  std::vector<std::string> names;
  OptionValues values;
  for (const OptionInfo& info : infos) {
    names.push_back(info.name);
    values[info.name] = parse_option(info, info.default_value, owner);
  }
  for (const auto& [raw_name, text] : given) {
    const std::string name = canonical_name(raw_name);
    const auto info = std::ranges::find(infos, name, &OptionInfo::name);
    if (info == infos.end()) {
      const std::string near = nearest_match(name, names);
      std::string fix = names.empty() ? "it takes no options"
                                      : fmt::format("it takes: {}", fmt::join(names, ", "));
      if (!near.empty()) fix = fmt::format("did you mean '{}'? ({})", near, fix);
      throw Error(ErrorCode::bad_usage, fmt::format("unknown option '{}'", raw_name),
                  std::string(owner), fix);
    }
    values[info->name] = parse_option(*info, text, owner);
  }
  return values;
}

std::string nearest_match(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  constexpr std::size_t kLongest = 100;  // no name of ours; the search is quadratic
  if (name.size() > kLongest) return best;
  // Of a short name at most half the letters: "c" is near to nothing.
  const std::size_t most = std::min(std::max<std::size_t>(2, name.size() / 3), name.size() / 2);
  std::size_t best_distance = most + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace dllm

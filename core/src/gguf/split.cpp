#include "gguf/split.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace dllm::gguf {
namespace {

constexpr std::string_view kHow = "keep all parts of the split, with their names, in one folder";

// A count of the split, in any integer width; nullopt when absent.
std::optional<std::uint64_t> find_count(const Part& part, std::string_view key) {
  for (const MetadataEntry& entry : part.metadata) {
    if (entry.key != key) continue;
    if (const auto* u = std::get_if<std::uint64_t>(&entry.value)) return *u;
    const auto* i = std::get_if<std::int64_t>(&entry.value);
    if (i != nullptr && *i >= 0) return static_cast<std::uint64_t>(*i);
    throw Error(
        ErrorCode::bad_file,
        fmt::format("key \"{}\" is {}, not a count", key,
                    i != nullptr ? fmt::format("{}", *i)
                                 : fmt::format("of type {}", metadata_type_name(entry.type))),
        part.name, "convert or split the model again");
  }
  return std::nullopt;
}

struct SplitName {
  std::string prefix;
  std::uint64_t number = 0;  ///< from 1
  std::uint64_t count = 0;
};

std::optional<std::uint64_t> five_digits(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

// "x-00001-of-00003.gguf"; nullopt for any other name.
std::optional<SplitName> parse_name(const std::string& name) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";
  if (name.size() <= kPattern.size()) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kPattern.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") {
    return std::nullopt;
  }
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!number || !count) return std::nullopt;
  return SplitName{name.substr(0, name.size() - kPattern.size()), *number, *count};
}

// A file name, never a path: the prefix is a piece of the given file's own name.
std::string part_name(std::string_view prefix, std::uint64_t number, std::uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

Error split_error(const Part& part, std::string fact, std::string fix = std::string(kHow)) {
  return {ErrorCode::bad_file, std::move(fact), part.name, std::move(fix)};
}

// The name of the given file, which must be the first part and say so.
SplitName check_first(const std::filesystem::path& given, const Part& first, std::uint64_t count) {
  const std::string name = given.filename().native();
  const auto parsed = parse_name(name);
  const std::uint64_t number = find_count(first, "split.no").value_or(0);
  if (!parsed) {
    throw split_error(
        first,
        fmt::format("the file says it is part {} of {} of a split model, but its name "
                    "does not end in -{:05}-of-{:05}.gguf",
                    number + 1, count, number + 1, count),
        "give the part its name back and put the other parts beside it");
  }
  if (parsed->count != count || parsed->number != number + 1) {
    throw split_error(first, fmt::format("the name says part {} of {}, the keys split.no and "
                                         "split.count say part {} of {}",
                                         parsed->number, parsed->count, number + 1, count));
  }
  if (number != 0) {
    throw split_error(
        first, fmt::format("the file is part {} of {} of a split model", number + 1, count),
        "open the first part, " + printable_path(part_name(parsed->prefix, 1, count)));
  }
  return *parsed;
}

Part read_next_part(const std::filesystem::path& path, std::uint64_t number, std::uint64_t count,
                    Faults& faults) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ErrorCode::bad_file,
                fmt::format("part {} of {} of the split model is missing", number, count),
                printable_path(path), std::string(kHow));
  }
  Part part = read_part(path, faults);
  const auto own_number = find_count(part, "split.no");
  const auto own_count = find_count(part, "split.count");
  if (!own_number) {
    faults.report(split_error(part, "key \"split.no\" is missing in a part of a split model"));
  } else if (*own_number != number - 1) {
    faults.report(
        split_error(part, fmt::format("the name says part {}, the key split.no says part {}",
                                      number, *own_number + 1)));
  }
  if (own_count && *own_count != count) {
    faults.report(split_error(
        part, fmt::format("split.count is {}, the first part says {}", *own_count, count)));
  }
  return part;
}

void check_tensor_count(const std::vector<Part>& parts, Faults& faults) {
  const auto expected = find_count(parts.front(), "split.tensors.count");
  std::uint64_t found = 0;
  for (const Part& part : parts) found += part.tensors.size();
  if (!expected || *expected == found) return;
  faults.report(
      split_error(parts.front(),
                  fmt::format("split.tensors.count is {}, the parts hold {}", *expected, found)));
}

void read_all(const std::filesystem::path& given, std::vector<Part>& parts, Faults& faults) {
  const auto count = find_count(parts.front(), "split.count");
  if (!count || *count <= 1) return;
  const SplitName first = check_first(given, parts.front(), *count);
  for (std::uint64_t number = 2; number <= *count; ++number) {
    const auto path = given.parent_path() / part_name(first.prefix, number, *count);
    parts.push_back(read_next_part(path, number, *count, faults));
  }
  check_tensor_count(parts, faults);
}

}  // namespace

void read_other_parts(const std::filesystem::path& given, std::vector<Part>& parts,
                      Faults& faults) {
  try {
    read_all(given, parts, faults);
  } catch (const Error& error) {
    faults.report(error);
  }
}

}  // namespace dllm::gguf

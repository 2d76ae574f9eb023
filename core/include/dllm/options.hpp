// Self-described options of plugins: what a sampler or backend takes, and values checked by that.
//
//   OptionValues values = check_options(sampler.options(), {{"steps", "64"}}, "sampler llada");
//
// Thread rule: values, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {

enum class OptionType { integer, number, boolean, choice, text };

/// "integer", "number", "boolean", "choice", "text".
std::string_view option_type_name(OptionType type);

struct OptionInfo {
  std::string name;
  OptionType type = OptionType::text;
  std::string default_value;
  std::string help;
  double minimum = 0;  ///< for integer and number; -inf / +inf where unbounded
  double maximum = 0;
  bool minimum_exclusive = false;
  bool maximum_exclusive = false;
  std::vector<std::string> choices;  ///< for choice

  /// The allowed values in words: "a number from 0 to 1", "low_confidence | random".
  std::string range_text() const;
};

/// A named set of option values, as a sampler describes it (extension "dllm.presets/1").
struct OptionPreset {
  std::string name;
  std::string help;
  std::map<std::string, std::string, std::less<>> values;  ///< option to text
};

/// What an option and value of another program's spelling mean here.
struct OptionAlias {
  std::string option, value;
  std::string means_option, means_value;
};

struct OptionValue {
  std::string text;          ///< canonical text form
  std::int64_t integer = 0;  ///< integer and boolean (0, 1)
  double number = 0;         ///< number, and integer as a double
};

/// Every option of a plugin with its value, defaults filled in.
using OptionValues = std::map<std::string, OptionValue, std::less<>>;

/// Checks `given` (name to text) against `infos`. `_` and `-` in names are equal.
/// `owner` is named in messages ("sampler llada"). Throws Error (bad_usage) that names option,
/// value, what is allowed and the nearest match of a misspelling; whole-string parse, "8x" and
/// "nan" refused.
OptionValues check_options(std::span<const OptionInfo> infos,
                           const std::map<std::string, std::string, std::less<>>& given,
                           std::string_view owner);

/// Parses one text against one info; same errors.
OptionValue parse_option(const OptionInfo& info, std::string_view text, std::string_view owner);

/// The candidate closest to `name` by edit distance, or empty when none is near enough to suggest.
std::string nearest_match(std::string_view name, std::span<const std::string> candidates);

}  // namespace dllm

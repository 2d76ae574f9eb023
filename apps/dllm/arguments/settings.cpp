#include "arguments/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

constexpr std::string_view kSamplerPrefix = "sampler.";
constexpr std::string_view kBackendPrefix = "backend.";

// The table's entry of a key; null for a plugin option without sugar.
const OptionSpec* spec_of_key(std::string_view key) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.key() == key) return &spec;
  }
  return nullptr;
}

std::string_view alternatives_of(std::string_view key) {
  const OptionSpec* spec = spec_of_key(key);
  return spec == nullptr ? std::string_view{} : spec->alternatives;
}

[[noreturn]] void refuse_twice(const Setting& first, const Assignment& second) {
  std::string fact =
      first.spelled == second.spelled
          ? fmt::format("option {} is given twice", first.spelled)
          : fmt::format("{} and {} are one option, given twice", first.spelled, second.spelled);
  const OptionSpec* spec = spec_of_key(second.key);
  if (spec == nullptr || !spec->is_flag()) {  // of a flag the names say it all
    fact += fmt::format(": '{}' and '{}'", first.values.front(), second.value);
  }
  const std::string where = first.place == second.place
                                ? first.place
                                : fmt::format("{} and {}", first.place, second.place);
  throw Error(ErrorCode::bad_usage, fact, where, "keep one of them");
}

using SettingMap = std::map<std::string, Setting, std::less<>>;

// The settings of one source; throws where it gives an option twice.
SettingMap collect(const std::vector<Assignment>& source) {
  SettingMap settings;
  for (const Assignment& given : source) {
    const auto [entry, is_new] = settings.try_emplace(given.key);
    const OptionSpec* spec = spec_of_key(given.key);
    if (is_new) {
      entry->second = {{given.value}, given.spelled, given.place, given.sugar};
    } else if (spec != nullptr && spec->repeatable) {
      entry->second.values.push_back(given.value);
    } else {
      refuse_twice(entry->second, given);
    }
  }
  return settings;
}

// Throws where one source gives two options that exclude each other (-p and -f).
void refuse_rivals(const SettingMap& settings) {
  std::map<std::string_view, const Setting*> chosen;  // by word of alternatives
  for (const auto& [key, setting] : settings) {
    const std::string_view word = alternatives_of(key);
    if (word.empty()) continue;
    const auto [rival, is_first] = chosen.try_emplace(word, &setting);
    if (is_first) continue;
    throw Error(
        ErrorCode::bad_usage,
        fmt::format("{} and {} exclude each other", rival->second->spelled, setting.spelled),
        setting.place, "give one of them");
  }
}

std::string default_text(std::string_view name) {
  const OptionSpec* spec = find_option(name);
  DLLM_ASSERT(spec != nullptr);
  return std::string(spec->default_value);
}

}  // namespace

std::string Setting::origin() const { return fmt::format("{}, {}", spelled, place); }

Assignment make_assignment(const OptionSpec& spec, std::string_view value, std::string_view spelled,
                           std::string_view place, const std::filesystem::path& base) {
  Assignment made{spec.key(), std::string(value), std::string(spelled), std::string(place)};
  if (spec.owner != Owner::own) made.sugar = &spec;
  if (spec.type == OptionType::text) {
    const bool relative = spec.is_path && !value.empty() && value != "-";
    if (spec.is_path && value.empty()) {
      throw Error(ErrorCode::bad_usage, fmt::format("option {}: '' is no path", spelled),
                  std::string(place), fmt::format("give {}", spec.value_name));
    }
    if (spec.is_path && value.find('\0') != value.npos) {
      // The system would take the name up to there, which is another file.
      throw Error(ErrorCode::bad_usage,
                  fmt::format("option {}: '{}' is no path: it holds a NUL byte", spelled, value),
                  std::string(place), fmt::format("give {}", spec.value_name));
    }
    if (relative && !base.empty()) made.value = (base / std::filesystem::path(value)).string();
    return made;
  }
  made.value = parse_option(spec.info(spelled), value, place).text;
  return made;
}

Assignment make_plugin_assignment(Owner owner, std::string_view name, std::string_view value,
                                  std::string_view spelled, std::string_view place) {
  std::string key(owner == Owner::sampler ? kSamplerPrefix : kBackendPrefix);
  key += name;
  std::ranges::replace(key, '-', '_');
  return {key, std::string(value), std::string(spelled), std::string(place)};
}

void Settings::merge(const std::vector<Assignment>& source) {
  SettingMap fresh = collect(source);
  refuse_rivals(fresh);
  std::set<std::string_view> decided;  // words of alternatives chosen by earlier sources
  for (const auto& [key, setting] : values_) decided.insert(alternatives_of(key));
  decided.erase("");
  for (auto& [key, setting] : fresh) {
    if (!decided.contains(alternatives_of(key))) values_.emplace(key, std::move(setting));
  }
}

void Settings::replace(std::string_view key, std::string value, std::string_view place) {
  Setting& setting = values_[std::string(key)];
  if (setting.spelled.empty()) setting.spelled = std::string(key);
  setting.values = {std::move(value)};
  setting.place = std::string(place);
}

const Setting* Settings::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string Settings::origin(std::string_view key) const {
  const Setting* setting = find(key);
  return setting == nullptr ? "" : setting->origin();
}

std::string Settings::text(std::string_view name) const {
  const Setting* setting = find(name);
  return setting == nullptr ? default_text(name) : setting->values.front();
}

bool Settings::flag(std::string_view name) const { return text(name) == "true"; }

std::optional<std::int64_t> Settings::find_integer(std::string_view name) const {
  const std::string value = text(name);
  if (value.empty()) return std::nullopt;
  return parse_option(find_option(name)->info(name), value, "settings").integer;
}

std::int64_t Settings::integer(std::string_view name) const {
  const auto value = find_integer(name);
  DLLM_ASSERT(value.has_value());
  return *value;
}

std::vector<std::string> Settings::list(std::string_view name) const {
  const Setting* setting = find(name);
  return setting == nullptr ? std::vector<std::string>{} : setting->values;
}

std::map<std::string, Setting, std::less<>> Settings::plugin_options(Owner owner) const {
  const std::string_view prefix = owner == Owner::sampler ? kSamplerPrefix : kBackendPrefix;
  std::map<std::string, Setting, std::less<>> options;
  for (const auto& [key, setting] : values_) {
    if (key.starts_with(prefix)) options.emplace(key.substr(prefix.size()), setting);
  }
  return options;
}

}  // namespace dllm::cli

#include "session/plugin_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

using GivenOptions = std::map<std::string, Setting, std::less<>>;

const OptionInfo* find_info(const PluginRecord& plugin, std::string_view name) {
  const auto found = std::ranges::find(plugin.options, name, &OptionInfo::name);
  return found == plugin.options.end() ? nullptr : &*found;
}

std::vector<std::string> option_names(const PluginRecord& plugin) {
  std::vector<std::string> names;
  names.reserve(plugin.options.size());
  for (const OptionInfo& info : plugin.options) names.push_back(info.name);
  return names;
}

// Accepted plugins of the same kind that have the option: what to use instead.
std::vector<std::string> others_with(const PluginRegistry& registry, const PluginRecord& plugin,
                                     std::string_view name) {
  std::vector<std::string> ids;
  for (const PluginRecord& other : registry.records()) {
    if (other.accepted && other.kind == plugin.kind && find_info(other, name) != nullptr) {
      ids.push_back(other.id);
    }
  }
  return ids;
}

// The short forms of the command line begin higher than the plugin does ("-t 0" is no number of
// threads, though the option's 0 means all): a message tells the range of what was typed.
OptionInfo as_typed(OptionInfo info, const Setting& setting) {
  if (setting.sugar == nullptr || setting.sugar->minimum <= info.minimum) return info;
  info.minimum = setting.sugar->minimum;
  info.minimum_exclusive = setting.sugar->minimum_exclusive;
  return info;
}

// What a sampler takes for an option, in words: "origin | entropy", "3 for remasking random".
std::string takes_text(const PluginRecord& sampler, std::string_view name, const Setting& setting) {
  std::string text;
  if (const OptionInfo* info = find_info(sampler, name))
    text = as_typed(*info, setting).range_text();
  for (const OptionAlias& alias : sampler.aliases) {
    if (alias.option != name) continue;
    const bool of_another = alias.means_option != name;
    text += fmt::format("{}{} for {}{}", text.empty() ? "" : ", ", alias.value,
                        of_another ? alias.means_option + " " : "", alias.means_value);
  }
  return text;
}

[[noreturn]] void refuse_option(const PluginRegistry& registry, const PluginRecord& plugin,
                                const std::string& name, const Setting& setting) {
  const std::string_view kind = plugin_kind_name(plugin.kind);
  const std::vector<std::string> names = option_names(plugin);
  const std::vector<std::string> others = others_with(registry, plugin, name);
  std::string fix = names.empty() ? fmt::format("{} takes no options", plugin.id)
                                  : fmt::format("{} takes {}", plugin.id, fmt::join(names, ", "));
  if (const std::string text = takes_text(plugin, name, setting); !text.empty()) {
    fix = fmt::format("of its values {} takes {}", plugin.id, text);
  }
  if (!others.empty()) {
    fix = fmt::format("--{} {} has it; {}", kind, fmt::join(others, " or "), fix);
  } else if (const std::string near = nearest_match(name, names); !near.empty()) {
    fix = fmt::format("did you mean '{}'? {}", near, fix);
  }
  throw Error(ErrorCode::bad_usage, fmt::format("{} {} has no option '{}'", kind, plugin.id, name),
              setting.origin(), fix);
}

// Does the sampler take the value as it stands?
bool takes(const PluginRecord& plugin, const std::string& option, const std::string& value) {
  const OptionInfo* info = find_info(plugin, option);
  if (info == nullptr) return false;
  try {
    parse_option(*info, value, plugin.id);
    return true;
  } catch (const Error&) {
    return false;
  }
}

const OptionAlias* find_alias(const PluginRecord& sampler, std::string_view option,
                              std::string_view value) {
  const auto found = std::ranges::find_if(sampler.aliases, [&](const OptionAlias& alias) {
    return alias.option == option && alias.value == value;
  });
  return found == sampler.aliases.end() ? nullptr : &*found;
}

// What the other samplers understand by a spelling that this one does not know, and the refusal.
void refuse_foreign_alias(const PluginRegistry& registry, const PluginRecord& sampler,
                          const std::string& name, const Setting& setting) {
  const std::string& value = setting.values.front();
  std::string meanings;
  for (const PluginRecord& other : registry.records()) {
    const OptionAlias* alias = other.accepted ? find_alias(other, name, value) : nullptr;
    if (alias == nullptr) continue;
    meanings += fmt::format("{}{} {} (sampler {})", meanings.empty() ? "" : " or ",
                            alias->means_option, alias->means_value, other.id);
  }
  if (meanings.empty()) return;
  throw Error(
      ErrorCode::bad_usage,
      fmt::format("{} {} is {}, which sampler {} does not have", name, value, meanings, sampler.id),
      setting.origin(),
      fmt::format("use another --sampler, or its options: {}",
                  fmt::join(option_names(sampler), ", ")));
}

// Turns spellings of other programs ("algorithm = 1" of llama.cpp) into what the sampler says they
// mean.
void translate_aliases(const PluginRegistry& registry, const PluginRecord& sampler,
                       GivenOptions& given) {
  const GivenOptions as_given = given;
  for (const auto& [name, setting] : as_given) {
    const std::string& value = setting.values.front();
    const OptionAlias* alias = find_alias(sampler, name, value);
    if (alias == nullptr) {
      if (!takes(sampler, name, value)) refuse_foreign_alias(registry, sampler, name, setting);
      continue;
    }
    given.erase(name);
    const Setting translated{{alias->means_value}, setting.spelled, setting.place};
    const auto [other, is_new] = given.emplace(alias->means_option, translated);
    if (is_new) continue;
    throw Error(ErrorCode::bad_usage,
                fmt::format("{} and {} both set {}", setting.spelled, other->second.spelled,
                            alias->means_option),
                setting.place, "give one of them");
  }
}

// Each value against its info, so that the message says where it was given; then all of them.
OptionValues check_given(const PluginRegistry& registry, const PluginRecord& plugin,
                         const GivenOptions& given,
                         std::map<std::string, std::string, std::less<>> texts) {
  const std::string owner = fmt::format("{} {}", plugin_kind_name(plugin.kind), plugin.id);
  for (const auto& [name, setting] : given) {
    const OptionInfo* info = find_info(plugin, name);
    if (info == nullptr) refuse_option(registry, plugin, name, setting);
    parse_option(as_typed(*info, setting), setting.values.front(),
                 fmt::format("{}; {}", owner, setting.origin()));
    texts[name] = setting.values.front();
  }
  return check_options(plugin.options, texts, owner);
}

bool is_alias_of_any(const PluginRegistry& registry, std::string_view name,
                     std::string_view value) {
  return std::ranges::any_of(registry.records(), [&](const PluginRecord& sampler) {
    return sampler.accepted && find_alias(sampler, name, value) != nullptr;
  });
}

std::vector<std::string> preset_names(const PluginRecord& sampler) {
  std::vector<std::string> names;
  for (const OptionPreset& preset : sampler.presets) names.push_back(preset.name);
  return names;
}

constexpr std::string_view kNoPreset = "default";

// Where the sampler is not yet known: one of them must have the preset.
void check_preset_of_any(const PluginRegistry& registry, const Settings& settings) {
  const std::string name = settings.text("preset");
  std::vector<std::string> names = {std::string(kNoPreset)};
  for (const PluginRecord& sampler : registry.records()) {
    for (std::string& known : preset_names(sampler)) names.push_back(std::move(known));
  }
  if (std::ranges::find(names, name) != names.end()) return;
  const std::string near = nearest_match(name, names);
  throw Error(ErrorCode::bad_usage, fmt::format("no sampler has a preset '{}'", name),
              settings.origin("preset"),
              near.empty() ? std::string("`dllm plugins` lists the presets of each sampler")
                           : fmt::format("did you mean '{}'?", near));
}

// One option against all samplers: fine when one takes it. Which of them the model will use is not
// known yet, so a refusal says what each would take.
void check_with_any(const PluginRegistry& registry, const std::string& name,
                    const Setting& setting) {
  std::vector<std::string> names;
  std::vector<std::string> taken;
  std::optional<Error> refusal;
  for (const PluginRecord& sampler : registry.records()) {
    if (!sampler.accepted || sampler.kind != PluginKind::sampler) continue;
    for (const OptionInfo& info : sampler.options) names.push_back(info.name);
    if (const std::string text = takes_text(sampler, name, setting); !text.empty()) {
      taken.push_back(fmt::format("sampler {} takes {}", sampler.id, text));
    }
    const OptionInfo* info = find_info(sampler, name);
    if (info == nullptr) continue;
    try {
      parse_option(as_typed(*info, setting), setting.values.front(),
                   fmt::format("sampler {}; {}", sampler.id, setting.origin()));
      return;
    } catch (const Error& error) {
      refusal = error;
    }
  }
  if (refusal && taken.size() == 1) throw *refusal;
  if (refusal) {
    throw Error(ErrorCode::bad_usage, refusal->fact(), setting.origin(),
                fmt::format("{}", fmt::join(taken, "; ")));
  }
  const std::string near = nearest_match(name, names);
  throw Error(ErrorCode::bad_usage, fmt::format("no sampler has an option '{}'", name),
              setting.origin(),
              near.empty() ? std::string("`dllm plugins` lists the options of each sampler")
                           : fmt::format("did you mean '{}'? `dllm plugins` lists all", near));
}

}  // namespace

const OptionPreset* chosen_preset(const PluginRecord& sampler, const Settings& settings) {
  const std::string name = settings.text("preset");
  if (name == kNoPreset) return nullptr;
  const auto found = std::ranges::find(sampler.presets, name, &OptionPreset::name);
  if (found != sampler.presets.end()) return &*found;
  const std::vector<std::string> names = preset_names(sampler);
  const std::string near = nearest_match(name, names);
  throw Error(ErrorCode::bad_usage, fmt::format("sampler {} has no preset '{}'", sampler.id, name),
              settings.origin("preset"),
              names.empty()  ? std::string("leave it out: this sampler describes none")
              : near.empty() ? fmt::format("its presets are {}", fmt::join(names, ", "))
                             : fmt::format("did you mean '{}'?", near));
}

OptionValues sampler_options(const PluginRegistry& registry, const PluginRecord& sampler,
                             const Settings& settings) {
  GivenOptions given = settings.plugin_options(Owner::sampler);
  translate_aliases(registry, sampler, given);
  const OptionPreset* preset = chosen_preset(sampler, settings);
  return check_given(registry, sampler, given,
                     preset == nullptr ? decltype(preset->values){} : preset->values);
}

void check_sampler_options_of_any(const PluginRegistry& registry, const Settings& settings) {
  check_preset_of_any(registry, settings);
  for (const auto& [name, setting] : settings.plugin_options(Owner::sampler)) {
    if (is_alias_of_any(registry, name, setting.values.front())) continue;
    check_with_any(registry, name, setting);
  }
}

OptionValues backend_options(const PluginRegistry& registry, const PluginRecord& backend,
                             const Settings& settings) {
  return check_given(registry, backend, settings.plugin_options(Owner::backend), {});
}

}  // namespace dllm::cli

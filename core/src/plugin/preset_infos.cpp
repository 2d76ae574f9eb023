#include "plugin/preset_infos.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

#include "dllm/error.hpp"
#include "dllm_sdk/presets_abi.h"
#include "plugin/foreign_memory.hpp"
#include "plugin/foreign_text.hpp"
#include "plugin/option_infos.hpp"

namespace dllm {
namespace {

// Far above any real plugin.
constexpr std::uint32_t kMaxListed = 1000;

std::string text_of(const char* text) { return text == nullptr ? std::string() : printable(text); }

// The fact where one of the texts, of which any may be null, lies nowhere.
std::string judge_texts(std::initializer_list<const char*> texts, const std::string& owner) {
  for (const char* text : texts) {
    std::string fact = text == nullptr ? std::string() : judge_memory(text);
    if (!fact.empty()) return fmt::format("a text of {}: {}", owner, fact);
  }
  return {};
}

// The fact where `value` is not one of the option's, or the option not one of the sampler's.
std::string judge_pair(const std::vector<OptionInfo>& infos, const std::string& owner,
                       const std::string& option, const std::string& value) {
  const auto info = std::ranges::find(infos, option, &OptionInfo::name);
  if (info == infos.end()) {
    return fmt::format("{} names option '{}', which is not its own", owner, option);
  }
  try {
    parse_option(*info, value, owner);
  } catch (const Error& error) {
    return fmt::format("{}: {}", owner, error.fact());
  }
  return {};
}

std::string copy_preset(const dllm_preset& from, const std::vector<OptionInfo>& infos,
                        OptionPreset& to) {
  if (std::string fact = judge_texts({from.name, from.help}, "a preset"); !fact.empty())
    return fact;
  to.name = text_of(from.name);
  to.help = text_of(from.help);
  if (!is_option_name(to.name)) {
    return fmt::format("a preset is named '{}', a name has 1 to 64 of a-z, 0-9 and _", to.name);
  }
  const std::string owner = fmt::format("preset {}", to.name);
  if (from.n_values > kMaxListed || (from.n_values > 0 && from.values == nullptr)) {
    return fmt::format("{} has {} values and {}", owner, from.n_values,
                       from.values == nullptr ? std::string("no list")
                                              : fmt::format("{} are allowed", kMaxListed));
  }
  if (std::string fact = judge_memory(from.values, from.n_values); !fact.empty()) {
    return fmt::format("the list of {}: {}", owner, fact);
  }
  for (const dllm_preset_value& pair : std::span(from.values, from.n_values)) {
    if (std::string fact = judge_texts({pair.option, pair.value}, owner); !fact.empty())
      return fact;
    const std::string option = text_of(pair.option);
    const std::string value = text_of(pair.value);
    if (std::string fact = judge_pair(infos, owner, option, value); !fact.empty()) return fact;
    if (!to.values.emplace(option, value).second) {
      return fmt::format("{} gives option {} twice", owner, option);
    }
  }
  return {};
}

std::string copy_alias(const dllm_option_alias& from, const std::vector<OptionInfo>& infos,
                       OptionAlias& to) {
  const auto texts = {from.option, from.value, from.means_option, from.means_value};
  if (std::string fact = judge_texts(texts, "an alias"); !fact.empty()) return fact;
  to = {text_of(from.option), text_of(from.value), text_of(from.means_option),
        text_of(from.means_value)};
  const std::string owner = fmt::format("the alias of {} = {}", to.option, to.value);
  if (to.option.empty() || to.value.empty()) return "an alias names no option or no value";
  return judge_pair(infos, owner, to.means_option, to.means_value);
}

std::string judge_table(const dllm_presets_v1& table) {
  if (std::string fact = judge_memory(&table); !fact.empty()) return "their table: " + fact;
  if (table.struct_size < sizeof(dllm_presets_v1)) {
    return fmt::format("their table has {} bytes, {} are needed", table.struct_size,
                       sizeof(dllm_presets_v1));
  }
  if (table.n_presets > kMaxListed || (table.n_presets > 0 && table.presets == nullptr) ||
      table.n_aliases > kMaxListed || (table.n_aliases > 0 && table.aliases == nullptr)) {
    return fmt::format(
        "{} presets and {} aliases; at most {} of each are allowed, with their lists",
        table.n_presets, table.n_aliases, kMaxListed);
  }
  std::string fact = judge_memory(table.presets, table.n_presets);
  if (fact.empty()) fact = judge_memory(table.aliases, table.n_aliases);
  return fact.empty() ? fact : "a list of theirs: " + fact;
}

}  // namespace

std::string read_presets(const dllm_sampler_v1& table, const std::vector<OptionInfo>& infos,
                         SamplerPresets& out) {
  if (table.get_extension == nullptr) return {};
  const auto* found =
      static_cast<const dllm_presets_v1*>(table.get_extension(DLLM_EXTENSION_PRESETS));
  if (found == nullptr) return {};
  if (std::string fact = judge_table(*found); !fact.empty()) return fact;
  for (const dllm_preset& preset : std::span(found->presets, found->n_presets)) {
    OptionPreset& copy = out.presets.emplace_back();
    if (std::string fact = copy_preset(preset, infos, copy); !fact.empty()) return fact;
    if (std::ranges::count(out.presets, copy.name, &OptionPreset::name) > 1) {
      return fmt::format("preset {} is described twice", copy.name);
    }
  }
  for (const dllm_option_alias& alias : std::span(found->aliases, found->n_aliases)) {
    if (std::string fact = copy_alias(alias, infos, out.aliases.emplace_back()); !fact.empty()) {
      return fact;
    }
  }
  return {};
}

}  // namespace dllm

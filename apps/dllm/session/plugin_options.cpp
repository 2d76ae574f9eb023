#include "session/plugin_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

using GivenOptions = std::map<std::string, Setting, std::less<>>;

struct PresetValue {
  std::string_view sampler, option, value;
};

// Defaults of the original code: LLaDA `generate.py`, Dream `generation_config` of its README call.
constexpr std::array kReferencePreset = std::to_array<PresetValue>({
    {"llada", "steps", "128"},
    {"llada", "block_length", "128"},
    {"llada", "temperature", "0"},
    {"llada", "cfg_scale", "0"},
    {"llada", "remasking", "low_confidence"},
    {"dream", "steps", "512"},
    {"dream", "algorithm", "origin"},
    {"dream", "eps", "0.001"},
    {"dream", "temperature", "0"},
    {"dream", "alg_temp", "0"},
    {"dream", "top_p", "1"},
    {"dream", "top_k", "0"},
});

// llama.cpp's `--diffusion-algorithm 0..4` (examples/diffusion) and the options here that mean it.
struct NumberedAlgorithm {
  std::string_view number, option, value;
};
constexpr std::array kNumberedAlgorithms = std::to_array<NumberedAlgorithm>({
    {"0", "algorithm", "origin"},
    {"1", "algorithm", "entropy"},
    {"2", "algorithm", "topk_margin"},
    {"3", "remasking", "random"},
    {"4", "algorithm", "maskgit_plus"},
    {"4", "remasking", "low_confidence"},
});

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

[[noreturn]] void refuse_option(const PluginRegistry& registry, const PluginRecord& plugin,
                                const std::string& name, const Setting& setting) {
  const std::string_view kind = plugin_kind_name(plugin.kind);
  const std::vector<std::string> names = option_names(plugin);
  const std::vector<std::string> others = others_with(registry, plugin, name);
  std::string fix = names.empty() ? fmt::format("{} takes no options", plugin.id)
                                  : fmt::format("{} takes {}", plugin.id, fmt::join(names, ", "));
  if (!others.empty()) {
    fix = fmt::format("--{} {} has it; {}", kind, fmt::join(others, " or "), fix);
  } else if (const std::string near = nearest_match(name, names); !near.empty()) {
    fix = fmt::format("did you mean '{}'? {}", near, fix);
  }
  throw Error(ErrorCode::bad_usage, fmt::format("{} {} has no option '{}'", kind, plugin.id, name),
              setting.origin(), fix);
}

bool has_choice(const PluginRecord& plugin, std::string_view option, std::string_view value) {
  const OptionInfo* info = find_info(plugin, option);
  return info != nullptr && std::ranges::find(info->choices, value) != info->choices.end();
}

// Turns "algorithm = 1" into the option and value of this sampler that llama.cpp's number means.
void translate_numbered_algorithm(const PluginRecord& sampler, GivenOptions& given) {
  const auto entry = given.find("algorithm");
  if (entry == given.end()) return;
  const Setting setting = entry->second;
  std::string meanings;
  for (const NumberedAlgorithm& known : kNumberedAlgorithms) {
    if (setting.values.front() != known.number) continue;
    if (has_choice(sampler, known.option, known.value)) {
      given.erase(entry);
      Setting translated{{std::string(known.value)}, setting.spelled, setting.place};
      const auto [other, is_new] = given.emplace(known.option, translated);
      if (is_new) return;
      throw Error(
          ErrorCode::bad_usage,
          fmt::format("{} and {} both choose the rule", setting.spelled, other->second.spelled),
          setting.place, "give one of them");
    }
    meanings += fmt::format("{}{} {}", meanings.empty() ? "" : " or ", known.option, known.value);
  }
  if (meanings.empty()) return;
  throw Error(ErrorCode::bad_usage,
              fmt::format("algorithm {} of llama.cpp is {}, which sampler {} does not have",
                          setting.values.front(), meanings, sampler.id),
              setting.origin(),
              fmt::format("use another --sampler, or its options: {}",
                          fmt::join(option_names(sampler), ", ")));
}

// Each value against its info, so that the message says where it was given; then all of them.
OptionValues check_given(const PluginRegistry& registry, const PluginRecord& plugin,
                         const GivenOptions& given,
                         std::map<std::string, std::string, std::less<>> texts) {
  const std::string owner = fmt::format("{} {}", plugin_kind_name(plugin.kind), plugin.id);
  for (const auto& [name, setting] : given) {
    const OptionInfo* info = find_info(plugin, name);
    if (info == nullptr) refuse_option(registry, plugin, name, setting);
    parse_option(*info, setting.values.front(), fmt::format("{}; {}", owner, setting.origin()));
    texts[name] = setting.values.front();
  }
  return check_options(plugin.options, texts, owner);
}

bool is_numbered_algorithm(std::string_view text) {
  return std::ranges::find(kNumberedAlgorithms, text, &NumberedAlgorithm::number) !=
         kNumberedAlgorithms.end();
}

// One option against all samplers: fine when one takes it, else the refusal of the last that has
// it, or that no sampler has it.
void check_with_any(const PluginRegistry& registry, const std::string& name,
                    const Setting& setting) {
  std::vector<std::string> names;
  std::optional<Error> refusal;
  for (const PluginRecord& sampler : registry.records()) {
    if (!sampler.accepted || sampler.kind != PluginKind::sampler) continue;
    for (const OptionInfo& info : sampler.options) names.push_back(info.name);
    const OptionInfo* info = find_info(sampler, name);
    if (info == nullptr) continue;
    try {
      parse_option(*info, setting.values.front(),
                   fmt::format("sampler {}; {}", sampler.id, setting.origin()));
      return;
    } catch (const Error& error) {
      refusal = error;
    }
  }
  if (refusal) throw *refusal;
  const std::string near = nearest_match(name, names);
  throw Error(ErrorCode::bad_usage, fmt::format("no sampler has an option '{}'", name),
              setting.origin(),
              near.empty() ? std::string("`dllm plugins` lists the options of each sampler")
                           : fmt::format("did you mean '{}'? `dllm plugins` lists all", near));
}

}  // namespace

std::map<std::string, std::string, std::less<>> reference_preset(std::string_view sampler_id) {
  std::map<std::string, std::string, std::less<>> values;
  for (const PresetValue& entry : kReferencePreset) {
    if (entry.sampler == sampler_id) values.emplace(entry.option, entry.value);
  }
  if (values.empty()) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("sampler {} has no preset 'reference'", sampler_id), "--preset",
                "leave it out, or use --sampler llada or dream");
  }
  return values;
}

OptionValues sampler_options(const PluginRegistry& registry, const PluginRecord& sampler,
                             const Settings& settings) {
  GivenOptions given = settings.plugin_options(Owner::sampler);
  translate_numbered_algorithm(sampler, given);
  std::map<std::string, std::string, std::less<>> texts;
  if (settings.text("preset") == "reference") texts = reference_preset(sampler.id);
  return check_given(registry, sampler, given, std::move(texts));
}

void check_sampler_options_of_any(const PluginRegistry& registry, const Settings& settings) {
  for (const auto& [name, setting] : settings.plugin_options(Owner::sampler)) {
    if (name == "algorithm" && is_numbered_algorithm(setting.values.front())) continue;
    check_with_any(registry, name, setting);
  }
}

OptionValues backend_options(const PluginRegistry& registry, const PluginRecord& backend,
                             const Settings& settings) {
  return check_given(registry, backend, settings.plugin_options(Owner::backend), {});
}

}  // namespace dllm::cli

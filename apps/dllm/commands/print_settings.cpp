// --print-config: the settings of a command with their origins, plugin options included.
#include "arguments/print_config.hpp"
#include "commands/commands.hpp"
#include "session/make_runtime.hpp"
#include "session/plan_run.hpp"
#include "session/plugin_options.hpp"
#include "session/seed.hpp"

namespace dllm::cli {
namespace {

std::vector<PluginValue> plugin_values(const PluginRecord& plugin, const OptionValues& values,
                                       const Settings& settings, Owner owner) {
  const auto given = settings.plugin_options(owner);
  const OptionPreset* preset = owner == Owner::sampler ? chosen_preset(plugin, settings) : nullptr;
  std::vector<PluginValue> printed;
  for (const OptionInfo& info : plugin.options) {
    const std::string& value = values.at(info.name).text;
    const auto setting = given.find(info.name);
    const bool of_preset =
        preset != nullptr && preset->values.contains(info.name) && value != info.default_value;
    std::string origin = of_preset ? "preset " + preset->name : "default";
    if (setting != given.end()) origin = setting->second.origin();
    printed.push_back({info.name, value, origin});
  }
  return printed;
}

// Where the model decides on the sampler and cannot be asked, what was given is printed as it is.
std::vector<PluginValue> given_values(const Settings& settings, Owner owner) {
  std::vector<PluginValue> printed;
  for (const auto& [name, setting] : settings.plugin_options(owner)) {
    printed.push_back({name, setting.values.front(), setting.origin()});
  }
  return printed;
}

std::vector<PluginValue> sampler_values(const Runtime& runtime, const Settings& settings) {
  SamplerChoice choice = choose_sampler(runtime.plugins(), settings);
  if (choice.record == nullptr && settings.has("model")) {
    const KnownModel model = open_known_model(runtime, settings);
    choice = choose_sampler(runtime.plugins(), settings, model.info.recommended_sampler);
  }
  if (choice.record == nullptr) return given_values(settings, Owner::sampler);
  return plugin_values(*choice.record, choice.options, settings, Owner::sampler);
}

}  // namespace

int print_settings(Command command, const Settings& settings, Console& console) {
  Settings printed = settings;
  PrintedPlugins plugins;
  if ((command & (kRun | kLogits | kBench)) != 0) {
    const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
    const BackendChoice backend = choose_backend(*runtime, settings);
    plugins.backend = plugin_values(*backend.record, backend.options, settings, Owner::backend);
    if (command == kRun) plugins.sampler = sampler_values(*runtime, settings);
    // What bench fills in depends on the canvas, so only what was given is printed.
    if (command == kBench) plugins.sampler = given_values(settings, Owner::sampler);
  }
  if (command == kReplay) plugins.sampler = given_values(settings, Owner::sampler);
  if ((command & (kRun | kBench)) != 0 && settings.integer("seed") < 0) {
    printed.replace("seed", std::to_string(choose_seed(settings)), "drawn for -1");
  }
  write_answer(print_config(command, printed, plugins));
  return 0;
}

}  // namespace dllm::cli

#include "arguments/option_table.hpp"

#include <algorithm>
#include <array>

namespace dllm::cli {
namespace {

constexpr std::array kCommands = std::to_array<CommandInfo>({
    {kRun, "run", "dllm run -m MODEL -p TEXT [options]", "write the model's answer to a prompt"},
    {kTokenize, "tokenize", "dllm tokenize -m MODEL -p TEXT | --decode IDS [options]",
     "the ids run feeds the model, or the text of ids"},
    {kInspect, "inspect", "dllm inspect MODEL [options]",
     "metadata, type counts and tensors of any GGUF file", "model"},
    {kLogits, "logits", "dllm logits -m MODEL --tokens IDS --out FILE [options]",
     "the model's logits of chosen rows, to a file"},
    {kBench, "bench", "dllm bench -m MODEL [options]",
     "how long a step takes here, stage by stage, and how fast the machine could be"},
    {kPlugins, "plugins", "dllm plugins [options]",
     "plugins found and refused, with every option of samplers and backends"},
    {kReplay, "replay", "dllm replay TRACE [--sampler NAME] [options]",
     "a sampler on the recorded statistics of a run, without a model", "recording"},
    {kCheckPlugin, "check-plugin", "dllm check-plugin FILE [--set NAME=VALUE]",
     "does a sampler keep the rules of the boundary?", "plugin"},
    {kNewSampler, "new-sampler", "dllm new-sampler NAME [--folder DIR]",
     "a project outside dllm's tree for a sampler of your own", "name"},
});

// "--n_predict" and "--n-predict" are one name.
std::string canonical_spelling(std::string_view typed) {
  std::string text(typed);
  if (text.starts_with("--")) std::ranges::replace(text, '_', '-');
  return text;
}

bool has_spelling(const OptionSpec& spec, std::string_view spelling) {
  if (spelling.starts_with("--") && spelling.substr(2) == spec.name) return true;
  const auto words = split_words(spec.spellings);
  return std::ranges::find(words, spelling) != words.end();
}

const OptionSpec* find_exact(std::string_view spelling) {
  const auto found = std::ranges::find_if(
      option_table(), [&](const OptionSpec& spec) { return has_spelling(spec, spelling); });
  return found == option_table().end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

std::span<const CommandInfo> command_table() { return kCommands; }

const CommandInfo* find_command(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &CommandInfo::name);
  return found == kCommands.end() ? nullptr : &*found;
}

const CommandInfo& command_info(Command command) {
  return *std::ranges::find(kCommands, command, &CommandInfo::command);
}

std::string_view group_title(Group group) {
  switch (group) {
    case Group::model:
      return "Model";
    case Group::prompt:
      return "Prompt";
    case Group::generation:
      return "Generation";
    case Group::bench:
      return "Measurement";
    case Group::decoding:
      return "Decoding (the sampler decides which of these it takes)";
    case Group::output:
      return "Output";
    case Group::work:
      return "Device";
    case Group::plugins:
      return "Plugins";
    case Group::settings:
      return "Settings";
  }
  return "";
}

std::string OptionSpec::key() const {
  if (owner == Owner::own) return std::string(name);
  std::string key = owner == Owner::sampler ? "sampler." : "backend.";
  key += name;
  std::ranges::replace(key, '-', '_');
  return key;
}

OptionInfo OptionSpec::info(std::string_view spelled) const {
  OptionInfo info;
  info.name = std::string(spelled);
  info.type = type;
  info.default_value = std::string(default_value);
  info.help = std::string(help);
  info.minimum = minimum;
  info.maximum = maximum;
  info.minimum_exclusive = minimum_exclusive;
  for (const std::string_view choice : split_words(choices)) info.choices.emplace_back(choice);
  return info;
}

const OptionSpec* find_option(std::string_view name) {
  const auto found = std::ranges::find(option_table(), name, &OptionSpec::name);
  return found == option_table().end() ? nullptr : &*found;
}

std::optional<Spelling> find_spelling(std::string_view typed) {
  const std::string spelling = canonical_spelling(typed);
  if (const OptionSpec* spec = find_exact(spelling)) return Spelling{spec, false};
  if (!spelling.starts_with("--no-")) return std::nullopt;
  const OptionSpec* spec = find_option(std::string_view(spelling).substr(5));
  if (spec == nullptr || !spec->is_flag() || spec->command_line_only) return std::nullopt;
  return Spelling{spec, true};
}

std::vector<std::string> all_spellings(unsigned commands) {
  std::vector<std::string> spellings;
  for (const OptionSpec& spec : option_table()) {
    if ((spec.commands & commands) == 0) continue;
    spellings.push_back("--" + std::string(spec.name));
    for (const std::string_view word : split_words(spec.spellings)) spellings.emplace_back(word);
    if (spec.is_flag() && !spec.command_line_only) {
      spellings.push_back("--no-" + std::string(spec.name));
    }
  }
  return spellings;
}

}  // namespace dllm::cli

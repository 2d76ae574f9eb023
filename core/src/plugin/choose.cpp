// Picking one plugin for a request, with an error that says what there is instead.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dllm/error.hpp"
#include "dllm/plugin.hpp"
#include "plugin/foreign_text.hpp"

namespace dllm {
namespace {

std::string folders_text(std::span<const std::filesystem::path> folders) {
  if (folders.empty()) return "no plugin folder exists";
  std::string text = "searched ";
  for (std::size_t i = 0; i < folders.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", folders[i].string());
  }
  return text;
}

// A refused file that was meant by `id`: by its descriptor, or where that could not be read by
// name.
bool is_meant(const PluginRecord& record, PluginKind kind, std::string_view id) {
  if (record.accepted) return false;
  if (!record.id.empty()) return record.kind == kind && record.id == id;
  const std::string stem = record.path.stem().string();
  return stem == id || stem == fmt::format("{}_{}", plugin_kind_name(kind), id);
}

// Architectures of well-known autoregressive models (names as in GGUF's general.architecture).
bool is_autoregressive(std::string_view architecture) {
  static constexpr std::array kPrefixes = std::to_array<std::string_view>(
      {"llama",   "qwen",   "mistral",   "mixtral",   "gemma",     "gpt",   "phi",      "deepseek",
       "falcon",  "bloom",  "mpt",       "starcoder", "stablelm",  "olmo",  "internlm", "baichuan",
       "chatglm", "glm",    "command-r", "cohere",    "granite",   "mamba", "rwkv",     "minicpm",
       "orion",   "xverse", "exaone",    "nemotron",  "smollm",    "grok",  "dbrx",     "jamba",
       "arctic",  "ernie",  "hunyuan",   "refact",    "codeshell", "plamo", "jais",     "openelm"});
  return std::ranges::any_of(
      kPrefixes, [&](std::string_view prefix) { return architecture.starts_with(prefix); });
}

const PluginRecord& best_backend(const PluginRegistry& registry) {
  const PluginRecord* best = nullptr;
  std::string reasons;
  for (const PluginRecord& record : registry.records()) {
    if (!record.accepted || record.kind != PluginKind::backend) continue;
    const BackendFactory::Probe found = probe_backend(record);
    if (!found.usable) {
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", record.id, found.reason);
    } else if (best == nullptr || record.backend->preference() > best->backend->preference()) {
      best = &record;
    }
  }
  if (best != nullptr) return *best;
  if (!reasons.empty()) {
    throw Error(ErrorCode::resource, "no backend can run here: " + reasons, "backend auto",
                "remove the cause given");
  }
  throw Error(ErrorCode::resource, "no backend plugin was found", folders_text(registry.folders()),
              "give --plugin-dir, or see `dllm plugins` for files that were refused");
}

}  // namespace

BackendFactory::Probe probe_backend(const PluginRecord& record) {
  try {
    return record.backend->probe();
  } catch (const std::exception& e) {
    return {.usable = false,
            .reason = fmt::format("looking at the machine failed: {}", e.what()),
            .devices = {}};
  }
}

const PluginRecord& PluginRegistry::require(PluginKind kind, std::string_view id) const {
  if (const PluginRecord* record = find(kind, id)) return *record;
  const std::string_view name = plugin_kind_name(kind);
  for (const PluginRecord& record : records()) {
    if (!is_meant(record, kind, id)) continue;
    std::string fact = fmt::format("{} '{}' was refused: {}", name, id, record.reason);
    std::string fix = split_fix(fact);
    throw Error(ErrorCode::bad_usage, std::move(fact), record.path.string(), std::move(fix));
  }
  const std::vector<std::string> known = ids(kind);
  if (known.empty()) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("no {} plugin was found, not even '{}'", name, id),
                folders_text(folders()), "give --plugin-dir with the folder that holds it");
  }
  const std::string near = nearest_match(id, known);
  std::string fix = fmt::format("available: {}", fmt::join(known, ", "));
  if (!near.empty()) fix = fmt::format("did you mean '{}'? ({})", near, fix);
  throw Error(ErrorCode::bad_usage, fmt::format("unknown {} '{}'", name, id),
              folders_text(folders()), std::move(fix));
}

const PluginRecord& PluginRegistry::require_model(std::string_view architecture) const {
  std::vector<std::string_view> supported;
  for (const PluginRecord& record : records()) {
    if (!record.accepted || record.kind != PluginKind::model) continue;
    for (const std::string_view name : record.model->architectures()) {
      if (name == architecture) return record;
      supported.push_back(name);
    }
  }
  const std::string fact =
      fmt::format("unsupported architecture '{}' (supported: {})", architecture,
                  supported.empty() ? "none, no model plugin was found"
                                    : fmt::format("{}", fmt::join(supported, ", ")));
  if (is_autoregressive(architecture)) {
    throw Error(ErrorCode::unsupported,
                fact + ": this is an autoregressive model, no diffusion model",
                "general.architecture", "use a GGUF of a masked diffusion model");
  }
  throw Error(ErrorCode::unsupported, fact, "general.architecture",
              "use a supported model, or add its model plugin with --plugin-dir");
}

const PluginRecord& PluginRegistry::choose_backend(std::string_view id) const {
  if (id == "auto") return best_backend(*this);
  const PluginRecord& record = require(PluginKind::backend, id);
  const BackendFactory::Probe found = probe_backend(record);
  if (found.usable) return record;
  throw Error(ErrorCode::resource,
              fmt::format("backend '{}' cannot run here: {}", id, found.reason),
              record.path.string(), "remove the cause, or use --backend auto");
}

}  // namespace dllm

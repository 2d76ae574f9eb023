// A run, planned and checked before any weight is read.
//
//   SamplerChoice sampler = choose_sampler(runtime.plugins(), settings);
//   BackendChoice backend = choose_backend(runtime, settings);
//   RunPlan plan = plan_run(runtime, settings, sampler, prompt, seed);
//   LoadedModel loaded = load_model(runtime, backend, plan.model, console);
//
// Sampler and backend are chosen by name with their options, before the file is opened. plan_run
// makes every other refusal that needs no weights: the file's header, the model plugin, the
// tokenizer, the prompt's ids, the context, and the sampler's own word on the canvas.
// Thread rule: values; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arguments/settings.hpp"
#include "dllm/engine.hpp"
#include "dllm/model.hpp"
#include "dllm/runtime.hpp"
#include "dllm/tokenizer.hpp"
#include "output/console.hpp"
#include "session/model_file.hpp"

namespace dllm::cli {

/// A model file with the plugin that runs it. Borrows nothing.
struct KnownModel {
  std::string path;  ///< as given
  std::shared_ptr<const GgufFile> file;
  const ModelFactory* factory = nullptr;
  ModelInfo info;
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// Opens the file, finds its model plugin, checks vocabulary against the head.
KnownModel open_known_model(const Runtime& runtime, const Settings& settings);

struct BackendChoice {
  const PluginRecord* record = nullptr;
  OptionValues options;
  std::map<std::string, std::string> origins;  ///< where each given option was given
};
/// Whether one named by --backend can run on this machine is not asked here but by load_model: bad
/// usage is that on every machine, and found first.
BackendChoice choose_backend(const Runtime& runtime, const Settings& settings);

/// The sampler named by --sampler with its options, or null record for "auto": the model decides.
struct SamplerChoice {
  const PluginRecord* record = nullptr;
  OptionValues options;
};
SamplerChoice choose_sampler(const PluginRegistry& registry, const Settings& settings,
                             const std::string& recommended = {});

struct RunPlan {
  KnownModel model;
  std::shared_ptr<const Sampler> sampler;
  std::vector<OptionInfo> sampler_options;  ///< as the sampler describes them
  std::vector<std::int32_t> prompt;
  SequenceRequest request;           ///< canvas: prompt, then --predict masks
  std::uint32_t forward_tokens = 0;  ///< rows of its first forward
  double prompt_ms = 0;              ///< tokenising the prompt
};
/// The part of it behind tokenising: the canvas is `prompt` and then n_predict masks.
RunPlan plan_canvas(KnownModel model, const SamplerChoice& sampler, const Settings& settings,
                    std::vector<std::int32_t> prompt, std::int64_t n_predict, std::uint64_t seed);
RunPlan plan_run(const Runtime& runtime, const Settings& settings, const SamplerChoice& named,
                 const PromptText& prompt, std::uint64_t seed);

/// Says so where --steps (or what sets it) asks for more steps than there are positions to fill,
/// and fewer needed a forward.
void note_steps_not_needed(const Settings& settings, const RunPlan& plan, std::uint32_t forwards,
                           Console& console);

struct LoadedModel {
  std::unique_ptr<Backend> backend;  ///< goes after the model
  std::unique_ptr<Model> model;
};
/// Imports the weights; progress on the console. Throws Error (interrupted) after Ctrl-C,
/// (resource) with the backend's reason where it cannot run here.
LoadedModel load_model(const Runtime& runtime, const BackendChoice& backend,
                       const KnownModel& model, Console& console);

}  // namespace dllm::cli

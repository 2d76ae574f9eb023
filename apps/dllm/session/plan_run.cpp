#include "session/plan_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "dllm/error.hpp"
#include "session/interrupt.hpp"
#include "session/plugin_options.hpp"
#include "session/stopwatch.hpp"

namespace dllm::cli {
namespace {

void check_vocabulary(const KnownModel& model) {
  if (model.tokenizer->n_tokens() <= model.info.n_vocab) return;
  throw Error(ErrorCode::bad_file,
              fmt::format("the vocabulary has {} tokens, the model {} rows for them",
                          model.tokenizer->n_tokens(), model.info.n_vocab),
              model.path, "use the file's own tokenizer metadata, or convert the model again");
}

void check_mask(const KnownModel& model, const Settings& settings) {
  const std::int32_t mask = model.tokenizer->require_mask();
  if (static_cast<std::uint32_t>(mask) < model.info.n_vocab) return;
  const bool given = settings.has("mask-id");
  throw Error(given ? ErrorCode::bad_usage : ErrorCode::bad_file,
              fmt::format("mask token {} is outside the model's {} rows", mask, model.info.n_vocab),
              given ? settings.origin("mask-id") : "tokenizer.ggml.mask_token_id",
              "give the right id with --mask-id");
}

void check_context(std::size_t n_prompt, std::int64_t n_predict, std::uint32_t context) {
  const std::uint64_t total = n_prompt + static_cast<std::uint64_t>(n_predict);
  if (total <= context) return;
  const std::string fix =
      n_prompt < context ? fmt::format("generate at most {} tokens (-n), or shorten the prompt",
                                       context - n_prompt)
                         : std::string("shorten the prompt");
  throw Error(ErrorCode::bad_usage,
              fmt::format("the prompt's {} tokens and {} to generate make {}, the context has {}",
                          n_prompt, n_predict, total, context),
              "-n", fix);
}

// The plugin for the file's architecture; a refusal names the file.
const ModelFactory* factory_of(const PluginRegistry& plugins, const KnownModel& model) {
  try {
    return plugins.require_model(model.file->get_string("general.architecture")).model;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    throw Error(error.code(), error.fact(), fmt::format("{}, {}", model.path, error.where()),
                error.fix());
  }
}

std::vector<std::string> folder_names(const PluginRegistry& plugins) {
  std::vector<std::string> names;
  for (const std::filesystem::path& folder : plugins.folders()) names.push_back(folder.string());
  return names;
}

// A backend by its name, usable or not. One that this build left out is told how to get.
const PluginRecord& named_backend(const PluginRegistry& plugins, const std::string& id) {
  const bool refused = std::ranges::any_of(plugins.records(), [&](const PluginRecord& record) {
    return !record.accepted && (record.id == id || record.path.stem() == "backend_" + id);
  });
  const std::vector<std::string> known = plugins.ids(PluginKind::backend);
  if (id == "cuda" && !refused && !known.empty() && std::ranges::find(known, id) == known.end()) {
    throw Error(
        ErrorCode::bad_usage,
        fmt::format("there is no backend '{}' here, there is {}", id, fmt::join(known, ", ")),
        fmt::format("searched {}", fmt::join(folder_names(plugins), ", ")),
        "build with the CUDA Toolkit, cmake -DDLLM_CUDA=ON (docs/building.md), or put "
        "backend_cuda.so of this version into a plugin folder");
  }
  return plugins.require(PluginKind::backend, id);
}

// The plugin names its option; where that was given only the settings know.
std::unique_ptr<Backend> make_backend(const Runtime& runtime, const BackendChoice& backend) {
  runtime.plugins().choose_backend(backend.record->id);  // throws where it cannot run
  try {
    return backend.record->backend->create(backend.options, runtime.log());
  } catch (const Error& error) {
    for (const auto& [name, origin] : backend.origins) {
      if (error.code() != ErrorCode::bad_usage || !error.where().ends_with("option " + name)) {
        continue;
      }
      throw Error(error.code(), error.fact(), fmt::format("{}; {}", error.where(), origin),
                  error.fix());
    }
    throw;
  }
}

}  // namespace

KnownModel open_known_model(const Runtime& runtime, const Settings& settings) {
  KnownModel model;
  model.path = require_model_path(settings);
  model.file = GgufFile::open(model.path);
  model.factory = factory_of(runtime.plugins(), model);
  model.info = model.factory->describe(*model.file);
  model.tokenizer = std::make_shared<Tokenizer>(make_tokenizer(*model.file, settings));
  check_vocabulary(model);
  return model;
}

BackendChoice choose_backend(const Runtime& runtime, const Settings& settings) {
  const std::string id = settings.text("backend");
  BackendChoice choice;
  choice.record =
      id == "auto" ? &runtime.plugins().choose_backend(id) : &named_backend(runtime.plugins(), id);
  choice.options = backend_options(runtime.plugins(), *choice.record, settings);
  for (const auto& [name, setting] : settings.plugin_options(Owner::backend)) {
    choice.origins[name] = setting.origin();
  }
  return choice;
}

SamplerChoice choose_sampler(const PluginRegistry& registry, const Settings& settings,
                             const std::string& recommended) {
  SamplerChoice choice;
  std::string id = settings.text("sampler");
  if (id == "auto") id = recommended;
  if (id.empty()) {
    check_sampler_options_of_any(registry, settings);
    return choice;
  }
  choice.record = &registry.require(PluginKind::sampler, id);
  choice.options = sampler_options(registry, *choice.record, settings);
  return choice;
}

RunPlan plan_canvas(KnownModel model, const SamplerChoice& sampler, const Settings& settings,
                    std::vector<std::int32_t> prompt, std::int64_t n_predict, std::uint64_t seed) {
  DLLM_ASSERT(sampler.record != nullptr);
  RunPlan plan;
  plan.model = std::move(model);
  plan.prompt = std::move(prompt);
  check_mask(plan.model, settings);
  check_context(plan.prompt.size(), n_predict, plan.model.info.context_length);

  plan.request = answer_request(plan.prompt, static_cast<std::size_t>(n_predict),
                                model_facts(plan.model.info, *plan.model.tokenizer));
  plan.sampler = std::make_shared<Sampler>(sampler.record->library, sampler.record->id,
                                           sampler.record->sampler, sampler.record->options,
                                           sampler.options, plan.request.facts);
  plan.sampler_options = sampler.record->options;
  plan.request.sampler = plan.sampler;
  plan.request.seed = seed;
  plan.forward_tokens = check_request(plan.request, plan.model.info);
  return plan;
}

RunPlan plan_run(const Runtime& runtime, const Settings& settings, const SamplerChoice& named,
                 const PromptText& prompt, std::uint64_t seed) {
  KnownModel model = open_known_model(runtime, settings);
  SamplerChoice choice = named;
  if (choice.record == nullptr) {
    choice = choose_sampler(runtime.plugins(), settings, model.info.recommended_sampler);
  }
  check_mask(model, settings);
  const Stopwatch prompt_watch;
  std::vector<std::int32_t> ids = prompt_ids(*model.tokenizer, settings, prompt);
  const double prompt_ms = prompt_watch.elapsed_ms();
  RunPlan plan = plan_canvas(std::move(model), choice, settings, std::move(ids),
                             settings.integer("predict"), seed);
  plan.prompt_ms = prompt_ms;
  plan.request.ignore_eos = settings.flag("ignore-eos");
  return plan;
}

void note_steps_not_needed(const Settings& settings, const RunPlan& plan, std::uint32_t forwards,
                           Console& console) {
  const Setting* given = settings.find("sampler.steps");
  const auto steps = plan.sampler->values().find("steps");
  if (given == nullptr || steps == plan.sampler->values().end()) return;
  const std::size_t to_fill = plan.request.ids.size() - plan.prompt.size();
  const std::int64_t asked = steps->second.integer;
  if (asked <= static_cast<std::int64_t>(to_fill) || asked <= forwards) return;
  console.note(fmt::format(
      "{} are asked for ({}), but there {} to fill: {} needed the model",
      counted(static_cast<std::size_t>(asked), "step"), given->origin(),
      to_fill == 1 ? std::string("is 1 position") : fmt::format("are {} positions", to_fill),
      forwards));
}

LoadedModel load_model(const Runtime& runtime, const BackendChoice& backend,
                       const KnownModel& model, Console& console) {
  LoadedModel loaded;
  loaded.backend = make_backend(runtime, backend);
  const auto progress = [&](std::uint64_t done, std::uint64_t total) {
    if (interrupted()) end_interrupted("while loading the model", model.path);
    if (total != 0) console.status(fmt::format("loading {:3} %", 100 * done / total));
  };
  loaded.model = model.factory->load(model.file, *loaded.backend, runtime.log(), progress);
  console.clear_status();
  return loaded;
}

}  // namespace dllm::cli

// dllm bench: how long a step takes here, where its time goes, and how far that is from what the
// machine can do.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <random>
#include <utility>

#include "bench/bench_result.hpp"
#include "bench/compare.hpp"
#include "bench/trace.hpp"
#include "commands/commands.hpp"
#include "dllm/error.hpp"
#include "output/complete_file.hpp"
#include "session/interrupt.hpp"
#include "session/make_runtime.hpp"
#include "session/output_path.hpp"
#include "session/peak_memory.hpp"
#include "session/seed.hpp"
#include "session/stopwatch.hpp"
#include "session/text_input.hpp"

namespace dllm::cli {
namespace {

constexpr std::int64_t kDefaultSteps = 4;

std::string trace_path(const Settings& settings) {
  const std::string path = settings.text("trace");
  if (path.empty()) return path;
  check_output_path(settings, path, "trace");
  check_complete_file(path, settings.origin("trace"), "a trace");
  return path;
}

// Nothing is read from standard input unasked: a random prompt is as good for a measurement.
std::optional<PromptText> read_given_prompt(const Settings& settings, Console& console) {
  const bool given = settings.has("prompt") || settings.has("file");
  if (!given && !settings.has("system") && !settings.has("system-file")) return std::nullopt;
  PromptText prompt;
  prompt.system = read_system(settings);
  if (given) prompt.text = read_prompt(settings, console);
  return prompt;
}

void check_canvas(const Settings& settings, std::size_t n_prompt, std::uint32_t context) {
  const auto canvas = static_cast<std::uint64_t>(settings.integer("canvas"));
  const auto origin = settings.has("canvas") ? settings.origin("canvas") : std::string("--canvas");
  if (canvas > context) {
    throw Error(
        ErrorCode::bad_usage,
        fmt::format("a canvas of {} positions is asked for, the context has {}", canvas, context),
        origin, fmt::format("give --canvas {} or less", context));
  }
  if (n_prompt >= canvas) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("the prompt's {} tokens leave nothing to fill of a canvas of {}",
                            n_prompt, canvas),
                origin, fmt::format("give --canvas {} or more", n_prompt + 1));
  }
}

// A fifth of the canvas, of any ids but the mask, which would be no prompt.
std::vector<std::int32_t> random_prompt(const KnownModel& model, std::int64_t canvas,
                                        std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::int32_t mask = model.tokenizer->require_mask();
  std::vector<std::int32_t> ids;
  while (static_cast<std::int64_t>(ids.size()) < canvas / 5) {
    const auto id = static_cast<std::int32_t>(random() % model.tokenizer->n_tokens());
    if (id != mask) ids.push_back(id);
  }
  return ids;
}

// A few steps over one block, unless something else is asked for: a repeat should take seconds.
SamplerChoice choose_bench_sampler(const PluginRegistry& registry, const Settings& settings,
                                   const SamplerChoice& named, const ModelInfo& model,
                                   std::int64_t n_generated) {
  const PluginRecord& record =
      named.record != nullptr ? *named.record
                              : registry.require(PluginKind::sampler, model.recommended_sampler);
  Settings chosen = settings;
  const auto given = settings.plugin_options(Owner::sampler);
  const auto fill_in = [&](const std::string& name, const std::string& value) {
    const bool known =
        std::ranges::find(record.options, name, &OptionInfo::name) != record.options.end();
    if (known && !given.contains(name) && settings.text("preset") == "default")
      chosen.replace("sampler." + name, value, "default of bench");
  };
  fill_in("steps", std::to_string(std::min(n_generated, kDefaultSteps)));
  fill_in("block_length", std::to_string(n_generated));
  return choose_sampler(registry, chosen, record.id);
}

RunPlan plan_bench(const Runtime& runtime, const Settings& settings, const SamplerChoice& named,
                   const std::optional<PromptText>& prompt, std::uint64_t seed) {
  KnownModel model = open_known_model(runtime, settings);
  const std::int64_t canvas = settings.integer("canvas");
  std::vector<std::int32_t> ids =
      prompt ? prompt_ids(*model.tokenizer, settings, *prompt) : random_prompt(model, canvas, seed);
  check_canvas(settings, ids.size(), model.info.context_length);
  const std::int64_t n_generated = canvas - static_cast<std::int64_t>(ids.size());
  const SamplerChoice sampler =
      choose_bench_sampler(runtime.plugins(), settings, named, model.info, n_generated);
  RunPlan plan =
      plan_canvas(std::move(model), sampler, settings, std::move(ids), n_generated, seed);
  plan.request.ignore_eos = true;  // every repeat fills the whole canvas
  return plan;
}

std::map<std::string, std::uint32_t> count_types(const GgufFile& file) {
  std::map<std::string, std::uint32_t> types;
  for (const TensorInfo& tensor : file.tensors()) ++types[std::string(dtype_name(tensor.dtype))];
  return types;
}

BenchResult describe(const RunPlan& plan, const BackendChoice& backend, const LoadedModel& loaded) {
  BenchResult result;
  result.model_path = plan.model.path;
  result.architecture = plan.model.info.architecture;
  result.types = count_types(*plan.model.file);
  result.backend = backend.record->id;
  result.device = loaded.backend->device();
  result.backend_options = options_json(backend.record->options, backend.options);
  for (const auto& [name, origin] : backend.origins) {
    result.asked[name] = backend.options.at(name).text;
  }
  result.sampler = plan.sampler->id();
  result.sampler_options = options_json(plan.sampler_options, plan.sampler->values());
  result.canvas = static_cast<std::uint32_t>(plan.request.ids.size());
  result.n_prompt = static_cast<std::uint32_t>(plan.prompt.size());
  result.seed = plan.request.seed;
  return result;
}

void trace_step(const std::string& path, const RunPlan& plan, const LoadedModel& loaded,
                const BenchResult& result, Console& console) {
  TraceRecorder recorder(result.device.threads);
  profile_one_step(plan, loaded, result.work, recorder);
  write_trace(path, recorder,
              {{"model", result.model_path},
               {"device", result.device.name},
               {"canvas", result.canvas},
               {"version", version()}});
  console.note(fmt::format("the trace of a step is in {}", path));
}

// Without it where the measurement is refused, most likely the memory it takes: what the steps took
// is known by then and must not be lost.
std::optional<DevicePeak> peak_of(Backend& backend, Console& console) {
  std::string reason;
  try {
    return backend.measure_peak();
  } catch (const Error& error) {
    reason = fmt::format("{} ({})", error.fact(), error.where());
  } catch (const std::bad_alloc&) {
    reason = "out of memory";
  }
  console.warning(
      fmt::format("the peak of the machine was not measured: {}; --no-peak does not try", reason));
  return std::nullopt;
}

void write_result(const BenchResult& result, const std::optional<Json>& old,
                  const Settings& settings) {
  Json json = bench_json(result);
  if (old) json["compare"] = compare_json(*old, settings.text("compare"), json);
  if (settings.flag("json")) return write_answer(dump_line(json) + "\n");
  write_answer(bench_text(result) + (old ? compare_text(json["compare"]) : std::string()));
}

}  // namespace

int bench_command(const Settings& settings, Console& console) {
  require_model_path(settings);
  const std::string trace = trace_path(settings);
  std::optional<Json> old;
  if (settings.has("compare"))
    old = read_bench_result(settings.text("compare"), settings.origin("compare"));
  const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
  const SamplerChoice sampler = choose_sampler(runtime->plugins(), settings);
  const BackendChoice backend = choose_backend(*runtime, settings);
  const std::optional<PromptText> prompt = read_given_prompt(settings, console);

  const Stopwatch load_watch;
  const RunPlan plan = plan_bench(*runtime, settings, sampler, prompt, choose_seed(settings));
  install_interrupt_handler();
  const LoadedModel loaded = load_model(*runtime, backend, plan.model, console);
  BenchResult result = describe(plan, backend, loaded);
  result.load_ms = load_watch.elapsed_ms();
  result.work = {.repeat = static_cast<std::uint32_t>(settings.integer("repeat")),
                 .warmup = static_cast<std::uint32_t>(settings.integer("warmup")),
                 .asked_rows = settings.flag("asked-rows")};
  console.note(fmt::format("backend {} ({}), sampler {}", result.backend, result.device.name,
                           result.sampler));

  if (!loaded.backend->set_profile(nullptr))
    console.warning(fmt::format("backend {} does not tell the stages of a step", result.backend));

  result.repeats = measure(plan, loaded, result.work, console);
  if (result.repeats.empty()) end_interrupted("before a repeat was complete", plan.model.path);
  note_steps_not_needed(settings, plan, result.repeats.front().steps, console);
  result.memory = loaded.backend->memory_report();
  result.peak_memory_bytes = peak_memory_bytes();  // before the peak takes memory of its own
  if (settings.flag("peak") && !interrupted()) result.peak = peak_of(*loaded.backend, console);
  write_result(result, old, settings);
  // Last: a trace that cannot be written must not cost the result.
  if (!trace.empty() && !interrupted()) trace_step(trace, plan, loaded, result, console);
  return interrupted() ? interrupt_status() : 0;
}

}  // namespace dllm::cli

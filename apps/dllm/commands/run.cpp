// dllm run: a prompt in, the model's answer out.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "commands/commands.hpp"
#include "dllm/display_text.hpp"
#include "output/canvas_view.hpp"
#include "output/json.hpp"
#include "output/progress_line.hpp"
#include "session/finite_weights.hpp"
#include "session/interrupt.hpp"
#include "session/make_runtime.hpp"
#include "session/output_path.hpp"
#include "session/peak_memory.hpp"
#include "session/plan_run.hpp"
#include "session/seed.hpp"
#include "session/stopwatch.hpp"
#include "session/text_input.hpp"
#include "trace/step_stats_file.hpp"
#include "trace/trace_writer.hpp"

namespace dllm::cli {
namespace {

/// Who watches the steps: a file, and the screen.
struct Watchers {
  std::unique_ptr<StepStatsFile> stats;  ///< null without --dump-step-stats
  std::unique_ptr<StepObserver> screen;
  std::unique_ptr<TraceWriter> trace;  ///< null without --record

  void on_step(const StepView& view) const {
    if (stats) stats->on_step(view);
    screen->on_step(view);
  }
};

/// What the run came to.
struct Outcome {
  std::vector<std::int32_t> tokens;  ///< generated, before the end token; final ones only
  std::vector<std::int32_t> canvas;  ///< prompt and all
  std::string text;
  std::string finish_reason;  ///< "stop", "length", "interrupted"
  std::uint32_t steps = 0;
  std::uint32_t forwards = 0;
  double generate_ms = 0;

  double tokens_per_second() const {
    return generate_ms > 0 ? static_cast<double>(tokens.size()) / (generate_ms / 1000) : 0;
  }
};

void check_watch_paths(const Settings& settings) {
  for (const char* option : {"dump-step-stats", "record"}) {
    const std::string path = settings.text(option);
    if (path == "-") {
      throw Error(ErrorCode::bad_usage, "steps cannot go to standard output",
                  settings.origin(option), "give a file: only the answer is written there");
    }
    check_output_path(settings, path, option);
  }
  const std::string trace = settings.text("record");
  if (is_same_output(trace, settings.text("dump-step-stats"))) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("'{}' would hold both the step statistics and the recording", trace),
                settings.origin("record"), "give two files");
  }
  if (!trace.empty()) check_output_file(trace, settings.origin("record"));
  // It is written in its place: what is there already must be writable itself, which opening tells.
  const std::string stats = settings.text("dump-step-stats");
  std::error_code ignored;
  if (!stats.empty() && !std::filesystem::exists(stats, ignored)) {
    check_output_file(stats, settings.origin("dump-step-stats"));
  }
}

TraceHeader trace_header(const RunPlan& plan) {
  TraceHeader header;
  header.model = plan.model.path;
  header.sampler = plan.sampler->id();
  for (const auto& [name, value] : plan.sampler->values()) header.options[name] = value.text;
  header.seed = plan.request.seed;
  header.ignore_eos = plan.request.ignore_eos;
  header.facts = plan.request.facts;
  header.ids = plan.request.ids;
  header.editable = plan.request.editable;
  return header;
}

Watchers make_watchers(const Settings& settings, const RunPlan& plan, Console& console) {
  Watchers watchers;
  const Tokenizer& tokenizer = *plan.model.tokenizer;
  if (const std::string path = settings.text("dump-step-stats"); !path.empty()) {
    watchers.stats = std::make_unique<StepStatsFile>(path, tokenizer);
  }
  if (const std::string path = settings.text("record"); !path.empty()) {
    watchers.trace = std::make_unique<TraceWriter>(path, trace_header(plan), tokenizer);
  }
  if (settings.flag("visual")) {
    watchers.screen = std::make_unique<CanvasView>(console, tokenizer, plan.prompt.size());
  } else {
    watchers.screen = std::make_unique<ProgressLine>(
        console, static_cast<std::size_t>(settings.integer("predict")));
  }
  return watchers;
}

void show_step(const StepReport& report, double ms, double run_ms, const SequenceResult& result,
               const Watchers& watchers) {
  for (const SequenceStep& step : report.sequences) {
    watchers.on_step({.step = step,
                      .edits = report.edits_of(step),
                      .ids = result.ids,
                      .state = result.state,
                      .ms = step.forward ? ms : 0,
                      .run_ms = run_ms});
  }
}

// The generated positions up to the end token, or up to the first one that is not final.
std::vector<std::int32_t> final_tokens(const SequenceResult& result, const RunPlan& plan) {
  std::vector<std::int32_t> tokens;
  const auto& stop_ids = plan.model.tokenizer->stop_ids();
  for (std::size_t i = plan.prompt.size(); i < result.ids.size(); ++i) {
    if (result.state[i] == DLLM_POSITION_MASKED) break;
    const bool is_end = std::ranges::find(stop_ids, result.ids[i]) != stop_ids.end();
    if (is_end && !plan.request.ignore_eos) break;
    tokens.push_back(result.ids[i]);
  }
  return tokens;
}

Outcome make_outcome(const SequenceResult& result, const RunPlan& plan) {
  Outcome outcome;
  outcome.tokens = final_tokens(result, plan);
  outcome.steps = result.steps;
  outcome.forwards = result.forwards;
  const Tokenizer& tokenizer = *plan.model.tokenizer;
  if (result.status == SequenceStatus::running) {
    outcome.finish_reason = "interrupted";
    // A character of which only a part is final is left out.
    const std::vector<std::uint8_t> known(outcome.tokens.size(), 1);
    outcome.text = display_text(tokenizer, outcome.tokens, known, "");
  } else {
    outcome.finish_reason = result.reason == FinishReason::stop ? "stop" : "length";
    outcome.text = final_text(tokenizer, outcome.tokens);
  }
  return outcome;
}

Outcome generate(const Settings& settings, const RunPlan& plan, Model& model,
                 const Watchers& watchers) {
  const auto length = static_cast<std::uint32_t>(plan.request.ids.size());
  Engine engine(model, {.max_sequences = 1,
                        .max_sequence_length = length,
                        .max_tokens = 2 * length,
                        .first_tokens = plan.forward_tokens,
                        .full_logits = settings.flag("full-logits"),
                        .record_top_list = watchers.trace ? kTraceTopList : 0});
  SequenceRequest request = plan.request;
  if (watchers.trace) {
    request.recorder = [&](const SequenceRound& round) { watchers.trace->add(round); };
  }
  const SequenceId id = engine.add(std::move(request));
  const Stopwatch watch;
  while (engine.running() && !interrupted()) {
    const Stopwatch step_watch;
    const StepReport& report = engine.step();
    show_step(report, step_watch.elapsed_ms(), watch.elapsed_ms(), engine.result(id), watchers);
  }
  const double generate_ms = watch.elapsed_ms();
  watchers.screen->finish();
  const SequenceResult result = engine.result(id);
  if (result.error != nullptr) {
    if (watchers.trace) watchers.trace->keep_rounds();
    // The engine knows the position; the file knows the tensor.
    if (result.error->code() == ErrorCode::bad_file) require_finite_weights(*plan.model.file);
    throw Error(*result.error);
  }
  Outcome outcome = make_outcome(result, plan);
  outcome.generate_ms = generate_ms;
  outcome.canvas.assign(result.ids.begin(), result.ids.end());
  return outcome;
}

Json outcome_json(const Outcome& outcome, const RunPlan& plan, const BackendChoice& backend,
                  const DeviceInfo& device, double load_ms) {
  const double per_step = outcome.forwards > 0 ? outcome.generate_ms / outcome.forwards : 0;
  return {{"text", outcome.text},
          {"tokens", outcome.tokens},
          {"prompt_tokens", plan.prompt},
          {"finish_reason", outcome.finish_reason},
          {"steps", outcome.steps},
          {"forwards", outcome.forwards},
          {"seed", plan.request.seed},
          {"model", plan.model.path},
          {"architecture", plan.model.info.architecture},
          {"backend", backend.record->id},
          {"device", device.name},
          {"sampler",
           {{"name", plan.sampler->id()},
            {"options", options_json(plan.sampler_options, plan.sampler->values())}}},
          {"cache", "exact"},
          {"timings_ms",
           {{"load", load_ms},
            {"prompt", plan.prompt_ms},
            {"generate", outcome.generate_ms},
            {"per_step", per_step}}},
          {"tokens_per_second", outcome.tokens_per_second()},
          {"peak_memory_bytes", peak_memory_bytes()},
          {"version", version()}};
}

std::string summary(const Outcome& outcome, const RunPlan& plan) {
  return fmt::format("{} ({}), {}, {}, {:.2f} s, {:.1f} tokens/s, seed {}",
                     counted(outcome.tokens.size(), "token"), outcome.finish_reason,
                     counted(outcome.steps, "step"), counted(outcome.forwards, "forward"),
                     outcome.generate_ms / 1000, outcome.tokens_per_second(), plan.request.seed);
}

}  // namespace

int run_command(const Settings& settings, Console& console) {
  require_model_path(settings);
  check_watch_paths(settings);
  const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
  const SamplerChoice sampler = choose_sampler(runtime->plugins(), settings);
  const BackendChoice backend = choose_backend(*runtime, settings);
  PromptText prompt;
  prompt.system = read_system(settings);
  prompt.text = read_prompt(settings, console);

  const Stopwatch load_watch;
  const RunPlan plan = plan_run(*runtime, settings, sampler, prompt, choose_seed(settings));
  install_interrupt_handler();
  const Watchers watchers = make_watchers(settings, plan, console);  // a bad path is found now
  const LoadedModel loaded = load_model(*runtime, backend, plan.model, console);
  const double load_ms = load_watch.elapsed_ms() - plan.prompt_ms;
  const DeviceInfo device = loaded.backend->device();
  console.note(fmt::format("backend {} ({}), sampler {}", backend.record->id, device.name,
                           plan.sampler->id()));

  const Outcome outcome = generate(settings, plan, *loaded.model, watchers);
  if (settings.flag("json")) {
    write_answer(dump_line(outcome_json(outcome, plan, backend, device, load_ms)) + "\n");
  } else {
    write_model_text(outcome.text);
  }
  console.note(summary(outcome, plan));
  if (outcome.finish_reason != "interrupted") {
    note_steps_not_needed(settings, plan, outcome.forwards, console);
  }
  if (watchers.trace) watchers.trace->finish(outcome.canvas, outcome.finish_reason);
  if (watchers.stats) watchers.stats->finish();  // last: a full disk must not cost the answer
  return outcome.finish_reason == "interrupted" ? interrupt_status() : 0;
}

}  // namespace dllm::cli

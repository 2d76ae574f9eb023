// dllm replay TRACE: a sampler against what a model answered when the trace was recorded.
#include <fmt/format.h>

#include <algorithm>

#include "commands/commands.hpp"
#include "dllm/display_text.hpp"
#include "dllm/engine.hpp"
#include "dllm/error.hpp"
#include "output/json.hpp"
#include "session/make_runtime.hpp"
#include "session/plan_run.hpp"
#include "trace/replay_model.hpp"

namespace dllm::cli {
namespace {

struct Replayed {
  std::vector<std::int32_t> tokens;  ///< at editable positions, before the first end token
  std::string text;                  ///< empty where the trace has no pieces
  std::string finish_reason;
  std::uint32_t steps = 0;
  std::uint32_t forwards = 0;
  std::size_t n_editable = 0;
  std::size_t n_as_recorded = 0;  ///< editable positions that end as they did when recorded
};

// The canvas as the recorded edits left it, or as it was noted at the end.
std::vector<std::int32_t> recorded_ids(const Trace& trace) {
  if (trace.end && trace.end->ids.size() == trace.header.ids.size()) return trace.end->ids;
  std::vector<std::int32_t> ids = trace.header.ids;
  for (const TraceRound& round : trace.rounds) {
    for (const dllm_edit& edit : round.edits) {
      ids[edit.position] = edit.kind == DLLM_EDIT_REMASK ? trace.header.facts.mask_id : edit.token;
    }
  }
  return ids;
}

std::string text_of(const std::vector<std::int32_t>& tokens, const Trace& trace) {
  std::string bytes;
  for (const std::int32_t token : tokens) {
    if (!trace.end) return {};
    const auto piece = trace.end->pieces.find(token);
    if (piece != trace.end->pieces.end()) bytes += piece->second;
  }
  return replace_invalid_utf8(bytes);
}

Replayed outcome(const SequenceResult& result, const Trace& trace) {
  Replayed out;
  out.finish_reason = result.reason == FinishReason::stop ? "stop" : "length";
  out.steps = result.steps;
  out.forwards = result.forwards;
  const std::vector<std::int32_t> before = recorded_ids(trace);
  bool ended = false;
  for (std::size_t i = 0; i < result.ids.size(); ++i) {
    if (trace.header.editable[i] == 0) continue;
    ++out.n_editable;
    out.n_as_recorded += result.ids[i] == before[i] ? 1 : 0;
    const bool stop =
        !trace.header.ignore_eos &&
        std::ranges::find(trace.header.stop_ids, result.ids[i]) != trace.header.stop_ids.end();
    ended = ended || stop || result.state[i] == DLLM_POSITION_MASKED;
    if (!ended) out.tokens.push_back(result.ids[i]);
  }
  out.text = text_of(out.tokens, trace);
  return out;
}

SequenceRequest make_request(const Trace& trace, std::shared_ptr<const Sampler> sampler,
                             std::uint64_t seed) {
  SequenceRequest request;
  request.ids = trace.header.ids;
  request.editable = trace.header.editable;
  request.sampler = std::move(sampler);
  request.facts = trace.header.facts;
  request.seed = seed;
  request.ignore_eos = trace.header.ignore_eos;
  return request;
}

SequenceResult play(Engine& engine, SequenceId id) {
  while (engine.running()) engine.step();
  const SequenceResult result = engine.result(id);
  if (result.error != nullptr) throw Error(*result.error);
  return result;
}

// The recorded sampler keeps its recorded options where none are given for it. Of one that it does
// not have any more nothing can be kept.
void keep_recorded_options(SamplerChoice& choice, const Settings& settings, const Trace& trace,
                           Console& console) {
  const auto given = settings.plugin_options(Owner::sampler);
  const std::string place = fmt::format("{}, 'options' of the header", trace_place(trace, 1));
  for (const auto& [name, text] : trace.header.options) {
    const auto info = std::ranges::find(choice.record->options, name, &OptionInfo::name);
    if (info == choice.record->options.end()) {
      console.warning(
          fmt::format("sampler {} has no option '{}', which the trace was recorded with",
                      choice.record->id, name));
    } else if (!given.contains(name)) {
      try {
        choice.options[name] = parse_option(*info, text, place);
      } catch (const Error& error) {
        throw Error(ErrorCode::bad_file, error.fact(), error.where(),
                    fmt::format("{}; --set {}=VALUE replaces it", error.fix(), name));
      }
    }
  }
}

SamplerChoice choose(const PluginRegistry& registry, const Settings& settings, const Trace& trace,
                     Console& console) {
  const TraceHeader& header = trace.header;
  const bool named = settings.text("sampler") != "auto";
  if (!named && registry.find(PluginKind::sampler, header.sampler) == nullptr) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("the trace was recorded with sampler '{}', which is not among the "
                            "plugins found ({})",
                            header.sampler, fmt::join(registry.ids(PluginKind::sampler), ", ")),
                settings.text("recording"),
                "name another with --sampler, or the folder that holds it with --plugin-dir; "
                "`dllm plugins` tells why a file was refused");
  }
  SamplerChoice choice = choose_sampler(registry, settings, header.sampler);
  if (choice.record->id == header.sampler) keep_recorded_options(choice, settings, trace, console);
  return choice;
}

// What the sampler refuses of options that nobody gave here stands in the trace.
Error with_the_trace(const Error& error, const Settings& settings, const Trace& trace,
                     const SamplerChoice& choice) {
  const bool recorded = choice.record->id == trace.header.sampler && !trace.header.options.empty();
  if (error.code() != ErrorCode::bad_usage || !recorded) return error;
  const bool all = settings.plugin_options(Owner::sampler).empty();
  return {all ? ErrorCode::bad_file : error.code(), error.fact(),
          fmt::format("{}; {} options are those of {}", error.where(), all ? "its" : "the other",
                      trace_place(trace, 1)),
          error.fix()};
}

Json replayed_json(const Replayed& out, const ReplayModel& model, const Trace& trace,
                   const Sampler& sampler, const SamplerChoice& choice, std::uint64_t seed) {
  return {{"text", out.text},
          {"tokens", out.tokens},
          {"finish_reason", out.finish_reason},
          {"steps", out.steps},
          {"forwards", out.forwards},
          {"seed", seed},
          {"sampler",
           {{"name", sampler.id()},
            {"options", options_json(choice.record->options, sampler.values())}}},
          {"rows", {{"exact", model.exact_rows()}, {"approximate", model.approximate_rows()}}},
          {"recorded",
           {{"model", trace.header.model},
            {"sampler", trace.header.sampler},
            {"positions", out.n_editable},
            {"same", out.n_as_recorded}}},
          {"version", version()}};
}

std::string id_list(const std::vector<std::int32_t>& ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

}  // namespace

int replay_command(const Settings& settings, Console& console) {
  const std::string path = settings.text("recording");
  if (path.empty()) {
    throw Error(ErrorCode::bad_usage, "no trace to replay", "command line",
                "write `dllm replay TRACE --sampler NAME`; `dllm run --record TRACE` makes one");
  }
  const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
  Trace trace = read_trace(path);
  trace.header.facts.n_stop_ids = static_cast<std::uint32_t>(trace.header.stop_ids.size());
  trace.header.facts.stop_ids = trace.header.stop_ids.data();

  const SamplerChoice choice = choose(runtime->plugins(), settings, trace, console);
  const std::uint64_t seed = settings.has("seed") && settings.integer("seed") >= 0
                                 ? static_cast<std::uint64_t>(settings.integer("seed"))
                                 : trace.header.seed;
  ReplayModel model(trace);
  std::shared_ptr<const Sampler> sampler;
  Replayed out;
  try {
    sampler =
        std::make_shared<Sampler>(choice.record->library, choice.record->id, choice.record->sampler,
                                  choice.record->options, choice.options, trace.header.facts);
    const auto length = static_cast<std::uint32_t>(trace.header.ids.size());
    Engine engine(model,
                  {.max_sequences = 1, .max_sequence_length = length, .max_tokens = 2 * length});
    out = outcome(play(engine, engine.add(make_request(trace, sampler, seed))), trace);
  } catch (const Error& error) {
    throw with_the_trace(error, settings, trace, choice);
  }
  if (settings.flag("json")) {
    write_answer(dump_line(replayed_json(out, model, trace, *sampler, choice, seed)) + "\n");
  } else {
    write_model_text(trace.end ? out.text : id_list(out.tokens));
  }
  console.note(
      fmt::format("sampler {}, {}, {}; {} rows as recorded, {} approximate; {} of {} positions "
                  "end as recorded by {}",
                  sampler->id(), counted(out.steps, "step"), counted(out.forwards, "forward"),
                  model.exact_rows(), model.approximate_rows(), out.n_as_recorded, out.n_editable,
                  trace.header.sampler));
  return 0;
}

}  // namespace dllm::cli

// dllm logits: the model's own rows for given ids, before any shift, to a file.
#include <fmt/format.h>

#include <memory>
#include <numeric>

#include "commands/commands.hpp"
#include "output/json.hpp"
#include "output/logits_file.hpp"
#include "session/finite_weights.hpp"
#include "session/interrupt.hpp"
#include "session/make_runtime.hpp"
#include "session/number_list.hpp"
#include "session/output_path.hpp"
#include "session/plan_run.hpp"
#include "session/text_input.hpp"

namespace dllm::cli {
namespace {

std::string require_out(const Settings& settings) {
  const std::string path = settings.text("out");
  if (path.empty()) {
    throw Error(ErrorCode::bad_usage, "no file for the logits", "command line",
                "give --out FILE.npy, or FILE.bin for raw values");
  }
  check_output_path(settings, path, "out");
  check_logits_path(path);
  return path;
}

// --tokens as they are, else the prompt's ids; read before the model where that is possible.
struct LogitsInput {
  std::vector<std::int32_t> ids;
  PromptText prompt;
};

LogitsInput read_input(const Settings& settings, Console& console) {
  LogitsInput input;
  if (settings.has("tokens")) {
    input.ids = parse_ids(settings.text("tokens"), settings.origin("tokens"));
    return input;
  }
  input.prompt.system = read_system(settings);
  input.prompt.text = read_prompt(settings, console);
  return input;
}

void check_ids(const std::vector<std::int32_t>& ids, const ModelInfo& info) {
  if (ids.empty() || ids.size() > info.context_length) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("{} tokens are given, the context takes 1 to {}", ids.size(),
                            info.context_length),
                "--tokens", "give fewer, or at least one");
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (static_cast<std::uint32_t>(ids[i]) < info.n_vocab) continue;
    throw Error(ErrorCode::bad_usage,
                fmt::format("token {} at position {} is not allowed", ids[i], i), "--tokens",
                fmt::format("give ids from 0 to {}", info.n_vocab - 1));
  }
}

std::vector<std::uint32_t> choose_rows(const Settings& settings, std::size_t n_ids) {
  if (settings.has("rows")) {
    return parse_rows(settings.text("rows"), static_cast<std::uint32_t>(n_ids),
                      settings.origin("rows"));
  }
  std::vector<std::uint32_t> rows(n_ids);
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

std::vector<float> forward(Model& model, const std::vector<std::int32_t>& ids,
                           const std::vector<std::uint32_t>& rows) {
  const auto n_ids = static_cast<std::uint32_t>(ids.size());
  model.reserve({.max_tokens = n_ids,
                 .max_score_rows = static_cast<std::uint32_t>(rows.size()),
                 .max_sequences = 1,
                 .max_sequence_length = n_ids});
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  const SequenceSlice sequence{.begin = 0, .length = n_ids, .mask = model.info().mask, .cache = {}};
  std::vector<float> values(rows.size() * model.info().n_vocab);
  model.forward_logits({.ids = ids,
                        .positions = positions,
                        .sequences = std::span(&sequence, 1),
                        .score = rows,
                        .raw_rows = true},
                       values);
  return values;
}

}  // namespace

int logits_command(const Settings& settings, Console& console) {
  require_model_path(settings);
  const std::string out = require_out(settings);
  if (settings.has("tokens") && settings.has("rows")) {  // found wrong without the model
    const auto ids = parse_ids(settings.text("tokens"), settings.origin("tokens"));
    if (!ids.empty()) choose_rows(settings, ids.size());
  }
  const std::unique_ptr<Runtime> runtime = make_runtime(settings, console);
  const BackendChoice backend = choose_backend(*runtime, settings);
  LogitsInput input = read_input(settings, console);

  const KnownModel model = open_known_model(*runtime, settings);
  if (!settings.has("tokens")) {
    input.ids = prompt_ids(*model.tokenizer, settings, input.prompt);
  }
  install_interrupt_handler();
  check_ids(input.ids, model.info);
  const std::vector<std::uint32_t> rows = choose_rows(settings, input.ids.size());
  const LoadedModel loaded = load_model(*runtime, backend, model, console);
  console.note(fmt::format("backend {} ({})", backend.record->id, loaded.backend->device().name));

  const std::vector<float> values = forward(*loaded.model, input.ids, rows);
  require_finite_logits(values, *model.file);
  write_logits(out, values, rows.size());
  console.note(
      fmt::format("{} of {} logits in {}", counted(rows.size(), "row"), model.info.n_vocab, out));
  if (settings.flag("json")) {
    write_answer(dump_line(Json{{"out", out},
                                {"format", logits_format(out)},
                                {"tokens", input.ids},
                                {"rows", rows},
                                {"shape", {rows.size(), model.info.n_vocab}},
                                {"version", version()}}) +
                 "\n");
  }
  return 0;
}

}  // namespace dllm::cli

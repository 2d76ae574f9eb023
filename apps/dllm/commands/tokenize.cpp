// dllm tokenize: the ids `run` feeds the model, or the text of ids.
#include <fmt/format.h>

#include "arguments/config_file.hpp"
#include "commands/commands.hpp"
#include "dllm/display_text.hpp"
#include "output/json.hpp"
#include "session/model_file.hpp"
#include "session/number_list.hpp"
#include "session/text_input.hpp"

namespace dllm::cli {
namespace {

int decode_ids(const Settings& settings) {
  const std::vector<std::int32_t> ids =
      parse_ids(settings.text("decode"), settings.origin("decode"));
  const ModelFile model = open_model_file(settings);
  const std::string bytes = model.tokenizer.decode(ids, settings.flag("parse-special"));
  write_answer(settings.flag("json") ? dump_line(Json{{"text", bytes}}) + "\n" : bytes);
  return 0;
}

// One token a line: the id, then its piece in quotes with escapes.
std::string token_lines(const std::vector<std::int32_t>& ids, const Tokenizer& tokenizer) {
  std::string lines;
  for (const std::int32_t id : ids) {
    lines += fmt::format("{:6} {}\n", id, quote_value(tokenizer.piece(id)));
  }
  return lines;
}

std::string token_json(const std::vector<std::int32_t>& ids, const Tokenizer& tokenizer) {
  Json pieces = Json::array();
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  return dump_line(Json{{"ids", ids}, {"pieces", std::move(pieces)}}) + "\n";
}

}  // namespace

int tokenize_command(const Settings& settings, Console& console) {
  require_model_path(settings);
  if (settings.has("decode")) return decode_ids(settings);
  PromptText prompt;
  prompt.system = read_system(settings);
  prompt.text = read_prompt(settings, console);
  const ModelFile model = open_model_file(settings);
  const std::vector<std::int32_t> ids = prompt_ids(model.tokenizer, settings, prompt);
  write_answer(settings.flag("json") ? token_json(ids, model.tokenizer)
                                     : token_lines(ids, model.tokenizer));
  return 0;
}

}  // namespace dllm::cli

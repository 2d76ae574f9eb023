#include "session/model_file.hpp"

#include <utility>

#include "dllm/error.hpp"

namespace dllm::cli {

std::string require_model_path(const Settings& settings) {
  const std::string path = settings.text("model");
  if (path.empty()) {
    throw Error(ErrorCode::bad_usage, "no model", "command line", "give -m MODEL.gguf");
  }
  return path;
}

Tokenizer make_tokenizer(const GgufFile& file, const Settings& settings) {
  TokenizerOptions options;
  options.normalization =
      settings.text("normalize") == "none" ? Normalization::none : Normalization::reference;
  if (const auto id = settings.find_integer("mask-id")) {
    options.mask_id = static_cast<std::int32_t>(*id);
  }
  return Tokenizer::from_gguf(file, options);
}

ModelFile open_model_file(const Settings& settings) {
  auto file = GgufFile::open(require_model_path(settings));
  Tokenizer tokenizer = make_tokenizer(*file, settings);
  return {std::move(file), std::move(tokenizer)};
}

std::vector<std::int32_t> prompt_ids(const Tokenizer& tokenizer, const Settings& settings,
                                     const PromptText& prompt) {
  const EncodeOptions options{.parse_special = settings.flag("parse-special")};
  if (!settings.flag("chat")) return tokenizer.encode(prompt.text, options);
  std::vector<ChatMessage> messages;
  if (prompt.system) messages.push_back({"system", *prompt.system});
  messages.push_back({"user", prompt.text});
  return tokenizer.encode_chat(messages, options);
}

}  // namespace dllm::cli

// Everything a command learns from a model file before its weights: header, tokenizer, prompt ids.
//
//   ModelFile model = open_model_file(settings);
//   std::vector<std::int32_t> ids = prompt_ids(model.tokenizer, settings, {text, system});
//
// Thread rule: values; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments/settings.hpp"
#include "dllm/gguf.hpp"
#include "dllm/tokenizer.hpp"

namespace dllm::cli {

struct ModelFile {
  std::shared_ptr<const GgufFile> file;
  Tokenizer tokenizer;
};

/// Throws Error (bad_usage) where no model is named.
std::string require_model_path(const Settings& settings);
/// The tokenizer of a file with --mask-id and --normalize applied.
Tokenizer make_tokenizer(const GgufFile& file, const Settings& settings);
ModelFile open_model_file(const Settings& settings);

struct PromptText {
  std::string text;
  std::optional<std::string> system;
};

/// The ids `run` feeds the model and `tokenize` prints: chat-formatted unless --no-chat.
std::vector<std::int32_t> prompt_ids(const Tokenizer& tokenizer, const Settings& settings,
                                     const PromptText& prompt);

}  // namespace dllm::cli

// A program of one's own that generates through the library: no command line, no plugin of its own.
//   generate_text MODEL.gguf "question"
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <dllm/engine.hpp>
#include <dllm/gguf.hpp>
#include <dllm/options.hpp>
#include <dllm/runtime.hpp>
#include <dllm/tokenizer.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kPredict = 64;  // positions for the answer

std::string generate(const std::string& path, const std::string& question) {
  // 1. What there is: plugins of the default folders, and the model file.
  dllm::Runtime runtime(dllm::RuntimeOptions{});
  const auto file = dllm::GgufFile::open(path);
  const auto& plugins = runtime.plugins();
  const auto& factory = *plugins.require_model(file->get_string("general.architecture")).model;
  const auto tokenizer = dllm::Tokenizer::from_gguf(*file, {});

  // 2. The model on a device.
  const auto& device = plugins.choose_backend("cpu");
  const auto backend = device.backend->create(
      dllm::check_options(device.options, {{"threads", "2"}}, "backend " + device.id),
      runtime.log());
  const auto model = factory.load(file, *backend, runtime.log(), {});

  // 3. The sampler that the model recommends, with an option set, on a canvas of prompt and masks.
  const std::vector<dllm::ChatMessage> chat = {{"user", question}};
  const dllm_model_facts facts = dllm::model_facts(model->info(), tokenizer);
  auto request = dllm::answer_request(tokenizer.encode_chat(chat, {}), kPredict, facts);
  const auto& rule = plugins.require(dllm::PluginKind::sampler, model->info().recommended_sampler);
  request.sampler = std::make_shared<dllm::Sampler>(
      rule.library, rule.id, rule.sampler, rule.options,
      dllm::check_options(rule.options, {{"steps", "32"}}, "sampler " + rule.id), facts);
  request.seed = 1;

  // 4. Steps, until every position is final.
  const auto length = static_cast<std::uint32_t>(request.ids.size());
  dllm::Engine engine(
      *model, {.max_sequences = 1, .max_sequence_length = length, .max_tokens = 2 * length});
  const auto id = engine.add(std::move(request));
  while (engine.running()) engine.step();
  const auto result = engine.result(id);
  if (result.error != nullptr) throw dllm::Error(*result.error);

  std::vector<std::int32_t> answer;
  const auto stop_ids = tokenizer.stop_ids();
  for (const std::int32_t token : result.ids.subspan(length - kPredict)) {
    if (std::find(stop_ids.begin(), stop_ids.end(), token) != stop_ids.end()) break;
    answer.push_back(token);
  }
  return tokenizer.decode(answer);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: generate_text MODEL.gguf QUESTION\n", stderr);
    return 2;
  }
  try {
    const std::string text = generate(argv[1], argv[2]);
    const bool written = std::printf("%s\n", text.c_str()) >= 0 && std::fflush(stdout) == 0;
    return written ? 0 : 1;
  } catch (const dllm::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

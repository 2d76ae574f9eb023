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

// What the sampler may know of the model. `tokenizer` must live as long as the result is used.
dllm_model_facts facts_of(const dllm::Tokenizer& tokenizer, const dllm::ModelInfo& info) {
  dllm_model_facts facts{};
  facts.struct_size = sizeof facts;
  facts.n_vocab = info.n_vocab;
  facts.n_tokens = tokenizer.n_tokens();
  facts.mask_id = tokenizer.require_mask();
  facts.bos_id = tokenizer.special().bos;
  facts.eos_id = tokenizer.special().eos;
  facts.eot_id = tokenizer.special().eot;
  facts.pad_id = tokenizer.special().pad;
  facts.context_length = info.context_length;
  facts.trained_block_length = info.trained_block_length;
  facts.n_stop_ids = static_cast<std::uint32_t>(tokenizer.stop_ids().size());
  facts.stop_ids = tokenizer.stop_ids().data();
  return facts;
}

// The prompt, and after it masks for the answer to appear in.
dllm::SequenceRequest request_of(std::vector<std::int32_t> prompt, std::size_t n_predict,
                                 const dllm_model_facts& facts) {
  dllm::SequenceRequest request;
  request.editable.assign(prompt.size(), 0);
  request.editable.resize(prompt.size() + n_predict, 1);
  request.ids = std::move(prompt);
  request.ids.resize(request.editable.size(), facts.mask_id);
  request.facts = facts;
  return request;
}

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
  const dllm_model_facts facts = facts_of(tokenizer, model->info());
  auto request = request_of(tokenizer.encode_chat(chat, {}), kPredict, facts);
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

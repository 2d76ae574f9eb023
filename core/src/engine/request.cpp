// A sequence before its first step: what it starts from, and what can be found wrong with it.
#include <fmt/format.h>

#include "dllm/canvas.hpp"
#include "dllm/engine.hpp"
#include "dllm/plan_check.hpp"
#include "dllm/tokenizer.hpp"
#include "engine/step_batch.hpp"

namespace dllm {
namespace {

void check_ids(const SequenceRequest& request, const ModelInfo& model) {
  if (request.ids.empty()) {
    throw Error(ErrorCode::bad_usage, "the canvas is empty", "request",
                "give a prompt or positions to generate");
  }
  if (request.editable.size() != request.ids.size()) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("the request has {} ids and {} editable flags", request.ids.size(),
                            request.editable.size()),
                "request", "give one flag per position");
  }
  if (request.ids.size() > model.context_length) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("prompt and generation take {} positions, the context has {}",
                            request.ids.size(), model.context_length),
                "request", "shorten the prompt or generate fewer tokens (-n)");
  }
  for (std::size_t i = 0; i < request.ids.size(); ++i) {
    const std::int32_t id = request.ids[i];
    if (id < 0 || static_cast<std::uint32_t>(id) >= model.n_vocab) {
      throw Error(ErrorCode::bad_usage,
                  fmt::format("token {} at position {} is outside the vocabulary of {} rows", id, i,
                              model.n_vocab),
                  "request", "give ids of this model's tokenizer");
    }
  }
}

}  // namespace

dllm_model_facts model_facts(const ModelInfo& model, const Tokenizer& tokenizer) {
  const SpecialIds& ids = tokenizer.special();
  const std::span<const std::int32_t> stop_ids = tokenizer.stop_ids();
  dllm_model_facts facts{};
  facts.struct_size = sizeof facts;
  facts.n_vocab = model.n_vocab;
  facts.n_tokens = tokenizer.n_tokens();
  facts.mask_id = tokenizer.require_mask();
  facts.bos_id = ids.bos;
  facts.eos_id = ids.eos;
  facts.eot_id = ids.eot;
  facts.pad_id = ids.pad;
  facts.context_length = model.context_length;
  facts.trained_block_length = model.trained_block_length;
  facts.n_stop_ids = static_cast<std::uint32_t>(stop_ids.size());
  facts.stop_ids = stop_ids.data();
  return facts;
}

SequenceRequest answer_request(std::vector<std::int32_t> prompt, std::size_t n_predict,
                               const dllm_model_facts& facts) {
  SequenceRequest request;
  request.editable.assign(prompt.size(), 0);
  request.editable.resize(prompt.size() + n_predict, 1);
  request.ids = std::move(prompt);
  request.ids.resize(request.editable.size(), facts.mask_id);
  request.facts = facts;
  return request;
}

std::uint32_t check_request(const SequenceRequest& request, const ModelInfo& model) {
  DLLM_ASSERT(request.sampler != nullptr);
  check_ids(request, model);
  const Canvas canvas(request.ids, request.editable, request.facts);
  SamplerRun run = request.sampler->start(canvas.view(), request.seed);
  if (canvas.n_masked() == 0) return canvas.size();
  const dllm_plan plan = run.plan(canvas.view());
  check_plan(plan, canvas.view(), model.n_vocab, request.sampler->id());
  return StepBatch::tokens_of(plan, canvas);
}

}  // namespace dllm

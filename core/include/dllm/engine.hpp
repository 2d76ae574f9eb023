// Engine: canvases of many sequences, advanced together by one forward a step.
//
//   SequenceRequest request = answer_request(prompt, 128, model_facts(model->info(), tokenizer));
//   request.sampler = sampler;
//   Engine engine(*model, {.max_sequences = 1, .max_sequence_length = 160, .max_tokens = 160});
//   auto id = engine.add(std::move(request));
//   while (engine.running()) engine.step();
//   engine.result(id).ids;
//
// One step: every running sequence is asked for its plan; plans that ask for nothing are applied at
// once and asked again; one forward serves all others; statistics come from the device; each run's
// edits are checked and written. The engine trusts no plugin: rows in range, edits only where
// allowed, tokens below the vocabulary, progress within a bounded number of steps; a fault ends
// that sequence alone, with an Error naming the sampler. Thread rule: one thread per Engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dllm/error.hpp"
#include "dllm/model.hpp"
#include "dllm/profile.hpp"
#include "dllm/sampler.hpp"

namespace dllm {

class Tokenizer;

using SequenceId = std::uint32_t;

/// One round as the sampler saw and answered it, for whoever records a run. Borrowed for the call.
struct SequenceRound {
  const dllm_canvas& canvas;  ///< before the edits
  const dllm_plan& plan;
  const dllm_stats& answers;  ///< what the sampler got; n_rows 0 for a round without a forward
  /// Where EngineLimits::record_top_list is set and there was a forward: every statistic of every
  /// position of the canvas, under the plan's parameters; else n_rows 0.
  const dllm_stats& all;
  std::span<const dllm_edit> edits;  ///< as returned, not yet checked
  bool finished = false;             ///< the sampler says so
};

/// What a sequence starts from. Masked positions may lie anywhere.
struct SequenceRequest {
  std::vector<std::int32_t> ids;       ///< the canvas; mask_id where to be filled
  std::vector<std::uint8_t> editable;  ///< same length; 1 where the sampler may write
  std::shared_ptr<const Sampler> sampler;
  dllm_model_facts facts{};  ///< as given to the sampler; stop_ids must outlive the engine
  std::uint64_t seed = 0;
  bool ignore_eos = false;      ///< do not end at a stop token
  std::uint32_t max_steps = 0;  ///< 0: a bound from the canvas (progress guard)
  std::function<void(const SequenceRound&)> recorder;  ///< called after each round; may be empty
};

enum class SequenceStatus { running, finished, failed };
/// stop: an end token was reached; length: every position is final.
enum class FinishReason { none, stop, length };

struct SequenceResult {
  SequenceStatus status = SequenceStatus::running;
  FinishReason reason = FinishReason::none;
  std::span<const std::int32_t> ids;    ///< the canvas as it stands
  std::span<const std::uint8_t> state;  ///< DLLM_POSITION_*
  std::uint32_t steps = 0;              ///< plan/apply rounds
  std::uint32_t forwards = 0;           ///< rounds that needed a forward
  const Error* error = nullptr;         ///< where failed
};

/// What one round did to one sequence. Rounds with neither forward nor edit are not listed.
struct SequenceStep {
  SequenceId id = 0;
  std::uint32_t step = 0;  ///< round just finished, from 0
  bool forward = false;    ///< it needed a forward
  std::uint32_t n_scored = 0;
  std::uint32_t first_edit = 0;  ///< its edits: StepReport::edits_of
  std::uint32_t n_edits = 0;
  std::uint32_t n_masked = 0;  ///< positions still masked after it
};

struct StepReport {
  std::vector<SequenceStep> sequences;
  std::vector<dllm_edit> edits;    ///< of all sequences, in the order of `sequences`
  std::uint32_t n_tokens = 0;      ///< rows of the forward
  std::uint32_t n_score_rows = 0;  ///< rows through the head
  double plan_ms = 0;
  double forward_ms = 0;  ///< forward, head and statistics
  double apply_ms = 0;

  std::span<const dllm_edit> edits_of(const SequenceStep& step) const {
    return std::span(edits).subspan(step.first_edit, step.n_edits);
  }
};

struct EngineLimits {
  std::uint32_t max_sequences = 1;
  std::uint32_t max_sequence_length = 0;
  std::uint32_t max_tokens = 0;  ///< of a forward, guidance pairs included
  /// Rows to take memory for at once; more when a step first brings more, as where a sampler turns
  /// guidance on late. 0: max_tokens.
  std::uint32_t first_tokens = 0;
  bool full_logits = false;  ///< score every position, as a generic runtime would
  /// Above 0: score every position with all statistics and a top list of this length (at most 64),
  /// for recorders. The tokens are the same.
  std::uint32_t record_top_list = 0;
};

/// What a sampler is told of a model. Its stop ids are the tokenizer's and live as long. Throws
/// what Tokenizer::require_mask throws.
dllm_model_facts model_facts(const ModelInfo& model, const Tokenizer& tokenizer);

/// A canvas of `prompt`, which stays as it is, and `n_predict` masked positions behind it. The
/// sampler is the caller's to set, as is the rest where the default will not do.
SequenceRequest answer_request(std::vector<std::int32_t> prompt, std::size_t n_predict,
                               const dllm_model_facts& facts);

/// Everything about a request that can be found wrong without weights: sizes, ids, context, and
/// what the sampler says to this canvas (a run is started, planned once and dropped). Throws Error
/// (bad_usage) with the numbers. Returns the tokens one forward of it takes: the canvas, or twice
/// the canvas where the first plan is guided; sum them up for EngineLimits::first_tokens.
std::uint32_t check_request(const SequenceRequest& request, const ModelInfo& model);

class Engine {
 public:
  /// Reserves everything a step of first_tokens needs. Throws Error (resource) with the numbers.
  Engine(Model& model, const EngineLimits& limits);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Throws Error (bad_usage) when the request does not fit the context or the limits.
  SequenceId add(SequenceRequest request);
  /// Forgets a sequence, running or not; results of it are no longer valid.
  void remove(SequenceId id);

  bool running() const noexcept;
  /// Advances every running sequence by one forward. The report lives until the next call. Throws
  /// what the model throws: Error (resource) where a wider step than before finds no memory.
  const StepReport& step();

  SequenceResult result(SequenceId id) const;

  /// Reports plans and edits as Stage::sampler; the backend reports the rest. Null ends that.
  void set_profile(ProfileSink* sink);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dllm

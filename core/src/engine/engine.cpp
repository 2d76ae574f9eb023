#include "dllm/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "dllm/canvas.hpp"
#include "dllm/plan_check.hpp"
#include "engine/owned_plan.hpp"
#include "engine/step_batch.hpp"
#include "engine/whole_logits.hpp"

namespace dllm {
namespace {

using Clock = std::chrono::steady_clock;

double elapsed_ms(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// Progress guard: rounds without a forward are cheap and a schedule may hold many of them, forwards
// are not and no rule needs many more than there are positions.
constexpr std::uint32_t kMaxFreeRounds = 1u << 20;
std::uint32_t default_max_forwards(std::uint32_t n_positions) { return 1024 + 64 * n_positions; }

// One sequence and where it is in its life. A run is ended before its sampler goes.
struct Sequence {
  Sequence(SequenceId sequence_id, SequenceRequest&& from, std::uint32_t forward_budget)
      : id(sequence_id),
        request(std::move(from)),
        canvas(std::move(request.ids), std::move(request.editable), request.facts),
        run(request.sampler->start(canvas.view(), request.seed)),
        max_forwards(forward_budget) {
    if (canvas.n_masked() == 0) finish(FinishReason::length);
  }

  void finish(FinishReason why) {
    status = SequenceStatus::finished;
    reason = why;
  }
  void fail(const Error& why) {
    status = SequenceStatus::failed;
    error = why;
  }
  const std::string& sampler_id() const { return request.sampler->id(); }

  SequenceId id;
  SequenceRequest request;
  Canvas canvas;
  SamplerRun run;
  std::uint32_t max_forwards;
  std::uint32_t forwards = 0;
  std::uint32_t free_rounds = 0;  // in a row
  OwnedPlan plan;                 // of the step in flight
  SequenceStatus status = SequenceStatus::running;
  FinishReason reason = FinishReason::none;
  std::optional<Error> error;
};

}  // namespace

struct Engine::Impl {
  Impl(Model& network, const EngineLimits& with) : model(network), limits(with), batch(with) {}

  SequenceId add(SequenceRequest request);
  const StepReport& step();

  void plan_all();
  void plan_one(Sequence& sequence);
  void guard_progress(const Sequence& sequence) const;
  void reserve(std::uint32_t n_tokens);
  void size_answers();
  void fetch_logits();
  void apply_answers(std::size_t index);
  void apply(Sequence& sequence, const dllm_stats& answers, const dllm_stats& all, bool forward);

  Model& model;
  EngineLimits limits;
  std::uint32_t reserved_tokens = 0;
  ProfileSink* profile = nullptr;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences;
  SequenceId next_id = 1;
  StepBatch batch;
  std::vector<Sequence*> in_batch;
  WholeLogits logits;
  HeadStats stats;
  StepReport report;
};

SequenceId Engine::Impl::add(SequenceRequest request) {
  const std::uint32_t tokens = check_request(request, model.info());
  if (request.ids.size() > limits.max_sequence_length || tokens > limits.max_tokens ||
      sequences.size() >= limits.max_sequences) {
    throw Error(ErrorCode::bad_usage,
                fmt::format("a sequence of {} positions ({} rows a forward) as number {} does not "
                            "fit an engine made for {} sequences of {} positions, {} rows",
                            request.ids.size(), tokens, sequences.size() + 1, limits.max_sequences,
                            limits.max_sequence_length, limits.max_tokens),
                "request", "make the engine with larger limits");
  }
  const std::uint32_t budget =
      request.max_steps > 0 ? request.max_steps
                            : default_max_forwards(static_cast<std::uint32_t>(request.ids.size()));
  if (request.sampler->takes_logits()) logits.reserve(reserved_tokens, model.info().n_vocab);
  const SequenceId id = next_id++;
  sequences.emplace(id, std::make_unique<Sequence>(id, std::move(request), budget));
  return id;
}

void Engine::Impl::guard_progress(const Sequence& sequence) const {
  if (sequence.forwards < sequence.max_forwards && sequence.free_rounds < kMaxFreeRounds) return;
  throw Error(ErrorCode::bad_plugin,
              fmt::format("no end after {} forwards and {} rounds, {} of {} positions still masked",
                          sequence.forwards, sequence.canvas.step(), sequence.canvas.n_masked(),
                          sequence.canvas.size()),
              fmt::format("sampler {}", sequence.sampler_id()),
              "use another sampler, or fewer steps");
}

// Plans until the sequence needs a forward, applying the rounds that need none.
void Engine::Impl::plan_one(Sequence& sequence) {
  while (sequence.status == SequenceStatus::running) {
    guard_progress(sequence);
    const dllm_plan told = sequence.run.plan(sequence.canvas.view());
    check_plan(told, sequence.canvas.view(), model.info().n_vocab, sequence.sampler_id());
    sequence.plan.take(told);
    const dllm_plan& plan = sequence.plan.get();
    if (plan.n_positions > 0) {
      const std::uint32_t tokens = StepBatch::tokens_of(plan, sequence.canvas);
      if (batch.n_tokens() + tokens > limits.max_tokens) {
        throw Error(ErrorCode::bad_plugin,
                    fmt::format("the step needs {} rows, the engine was made for {}",
                                batch.n_tokens() + tokens, limits.max_tokens),
                    fmt::format("sampler {}", sequence.sampler_id()),
                    "make the engine with larger limits");
      }
      batch.add(plan, sequence.canvas, sequence.request.facts, sequence.request.seed);
      in_batch.push_back(&sequence);
      return;
    }
    dllm_stats none{};
    none.struct_size = sizeof none;
    apply(sequence, none, none, false);
  }
}

void Engine::Impl::plan_all() {
  batch.clear();
  in_batch.clear();
  for (auto& [id, sequence] : sequences) {
    try {
      plan_one(*sequence);
    } catch (const Error& error) {
      sequence->fail(error);
    }
  }
}

void Engine::Impl::reserve(std::uint32_t n_tokens) {
  reserved_tokens = 0;  // a failure leaves the model with nothing, and the next step asks again
  // A guided sequence is two in the batch; every row of a forward may be asked for.
  model.reserve({.max_tokens = n_tokens,
                 .max_score_rows = n_tokens,
                 .max_sequences = 2 * limits.max_sequences,
                 .max_sequence_length = limits.max_sequence_length});
  reserved_tokens = n_tokens;
}

void Engine::Impl::size_answers() {
  std::uint32_t n_prob_of = 0;
  std::uint32_t n_top = 0;
  for (const StatsRequest& request : batch.requests()) {
    n_prob_of = std::max(n_prob_of, static_cast<std::uint32_t>(request.prob_of.size()));
    n_top = std::max(n_top, request.top_list);
  }
  stats.reserve(reserved_tokens, n_prob_of, n_top);
}

// Where they are not to be had, that ends the sequences that take them and no other.
void Engine::Impl::fetch_logits() {
  const auto takes = [](const Sequence* sequence) {
    return sequence->request.sampler->takes_logits();
  };
  if (std::ranges::none_of(in_batch, takes)) return;
  try {
    logits.fetch(model, batch.n_score_rows());
  } catch (const Error& error) {
    for (Sequence* sequence : in_batch) {
      if (takes(sequence)) sequence->fail(error);
    }
  }
}

void Engine::Impl::apply(Sequence& sequence, const dllm_stats& answers, const dllm_stats& all,
                         bool forward) {
  const dllm_canvas canvas = sequence.canvas.view();
  const dllm_edits edits = sequence.run.apply(canvas, answers);
  const std::span<const dllm_edit> list(edits.edits, edits.n_edits);
  if (sequence.request.recorder) {
    sequence.request.recorder(
        {canvas, sequence.plan.get(), answers, all, list, edits.status == DLLM_RUN_FINISHED});
  }
  sequence.canvas.apply(list, sequence.sampler_id());
  if (forward || !list.empty()) {
    report.sequences.push_back({sequence.id, sequence.canvas.step(), forward, answers.n_rows,
                                static_cast<std::uint32_t>(report.edits.size()), edits.n_edits,
                                sequence.canvas.n_masked()});
  }
  report.edits.insert(report.edits.end(), list.begin(), list.end());
  sequence.canvas.advance();
  sequence.forwards += forward ? 1 : 0;
  sequence.free_rounds = forward ? 0 : sequence.free_rounds + 1;

  const SequenceRequest& request = sequence.request;
  const std::span stop_ids(request.facts.stop_ids, request.facts.n_stop_ids);
  if (!request.ignore_eos && sequence.canvas.reached_stop(stop_ids)) {
    sequence.finish(FinishReason::stop);
  } else if (edits.status == DLLM_RUN_FINISHED) {
    if (const std::uint32_t left = sequence.canvas.n_masked(); left > 0) {
      throw Error(ErrorCode::bad_plugin,
                  fmt::format("it ended the run with {} of {} positions still masked", left,
                              sequence.canvas.size()),
                  fmt::format("sampler {}", sequence.sampler_id()),
                  "report it to the author of the sampler");
    }
    sequence.finish(FinishReason::length);
  }
}

void Engine::Impl::apply_answers(std::size_t index) {
  Sequence& sequence = *in_batch[index];
  if (sequence.status == SequenceStatus::failed) return;
  const dllm_plan& plan = sequence.plan.get();
  try {
    if (const auto bad = batch.first_non_finite(index, plan, stats)) {
      throw Error(ErrorCode::bad_file,
                  fmt::format("the logits of position {} are not finite at step {}", *bad,
                              sequence.canvas.step()),
                  model.info().name.empty() ? model.info().architecture : model.info().name,
                  "its weights are damaged, or so large that it overflows: download or convert it "
                  "again");
    }
    if (sequence.request.sampler->takes_logits()) {
      sequence.run.take_logits(sequence.canvas.view(), logits.of(batch.requests()[index], plan));
    }
    apply(sequence, batch.answers(index, plan, stats), batch.all_answers(index, stats), true);
  } catch (const Error& error) {
    sequence.fail(error);
  }
}

const StepReport& Engine::Impl::step() {
  report.sequences.clear();
  report.edits.clear();
  auto start = Clock::now();
  {
    const StageTimer timer(profile, Stage::sampler, "plan");
    plan_all();
  }
  report.plan_ms = elapsed_ms(start);
  report.n_tokens = batch.n_tokens();
  report.n_score_rows = batch.n_score_rows();
  report.forward_ms = 0;
  report.apply_ms = 0;
  if (batch.empty()) return report;

  if (batch.n_tokens() > reserved_tokens) reserve(batch.n_tokens());
  start = Clock::now();
  size_answers();
  model.forward_stats(batch.forward(), batch.requests(), stats);
  fetch_logits();
  report.forward_ms = elapsed_ms(start);

  start = Clock::now();
  {
    const StageTimer timer(profile, Stage::sampler, "apply");
    for (std::size_t i = 0; i < in_batch.size(); ++i) apply_answers(i);
  }
  report.apply_ms = elapsed_ms(start);
  return report;
}

Engine::Engine(Model& model, const EngineLimits& limits)
    : impl_(std::make_unique<Impl>(model, limits)) {
  const std::uint32_t first = limits.first_tokens > 0 ? limits.first_tokens : limits.max_tokens;
  impl_->reserve(std::min(first, limits.max_tokens));
  impl_->in_batch.reserve(limits.max_sequences);
  impl_->report.sequences.reserve(limits.max_sequences);
  impl_->report.edits.reserve(limits.max_tokens);
  impl_->stats.reserve(impl_->reserved_tokens, 0, 0);
}

Engine::~Engine() = default;

SequenceId Engine::add(SequenceRequest request) { return impl_->add(std::move(request)); }

void Engine::remove(SequenceId id) { impl_->sequences.erase(id); }

bool Engine::running() const noexcept {
  return std::ranges::any_of(impl_->sequences, [](const auto& entry) {
    return entry.second->status == SequenceStatus::running;
  });
}

const StepReport& Engine::step() { return impl_->step(); }

void Engine::set_profile(ProfileSink* sink) { impl_->profile = sink; }

SequenceResult Engine::result(SequenceId id) const {
  const auto found = impl_->sequences.find(id);
  if (found == impl_->sequences.end()) {
    throw Error(ErrorCode::bad_usage, fmt::format("there is no sequence {}", id), "engine",
                "use an id that add() returned and remove() did not take");
  }
  const Sequence& sequence = *found->second;
  return {sequence.status,
          sequence.reason,
          sequence.canvas.ids(),
          sequence.canvas.state(),
          sequence.canvas.step(),
          sequence.forwards,
          sequence.error ? &*sequence.error : nullptr};
}

}  // namespace dllm

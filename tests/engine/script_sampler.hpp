// A sampler whose plan and apply are lambdas of the test, behind the real C table.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "dllm/engine.hpp"
#include "dllm/sampler.hpp"
#include "fake_model.hpp"

namespace dllm::test {

/// What a scripted run does; the vectors keep alive what it hands out by pointer.
struct Script {
  std::function<void(const dllm_canvas&, dllm_plan&, std::vector<std::uint32_t>& positions)> plan;
  std::function<std::uint32_t(const dllm_canvas&, const dllm_stats&, std::vector<dllm_edit>&)>
      apply;
};

namespace detail {

// The table's functions carry no context, so the script under construction is passed here; each
// sampler takes its own copy in create().
inline const Script*& script_in_hand() {
  static const Script* script = nullptr;
  return script;
}

struct RunState {
  Script script;
  std::vector<std::uint32_t> positions;
  std::vector<dllm_edit> edits;
};

inline RunState* state_of(dllm_sampler_run* run) { return reinterpret_cast<RunState*>(run); }

inline dllm_status create(const dllm_option_value*, std::uint32_t, const dllm_model_facts*,
                          dllm_sampler** out, dllm_error*) {
  *out = reinterpret_cast<dllm_sampler*>(new Script(*script_in_hand()));
  return DLLM_OK;
}
inline void destroy(dllm_sampler* sampler) { delete reinterpret_cast<Script*>(sampler); }
inline dllm_status start(const dllm_sampler* sampler, const dllm_canvas*, std::uint64_t,
                         dllm_sampler_run** out, dllm_error*) {
  *out = reinterpret_cast<dllm_sampler_run*>(
      new RunState{*reinterpret_cast<const Script*>(sampler), {}, {}});
  return DLLM_OK;
}
inline void end(dllm_sampler_run* run) { delete state_of(run); }
inline dllm_status plan(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                        dllm_error*) {
  RunState& state = *state_of(run);
  state.positions.clear();
  state.script.plan(*canvas, *out, state.positions);
  out->positions = state.positions.data();
  out->n_positions = static_cast<std::uint32_t>(state.positions.size());
  return DLLM_OK;
}
inline dllm_status apply(dllm_sampler_run* run, const dllm_canvas* canvas, const dllm_stats* stats,
                         dllm_edits* out, dllm_error* error) {
  RunState& state = *state_of(run);
  state.edits.clear();
  try {
    out->status = state.script.apply(*canvas, *stats, state.edits);
  } catch (const std::exception& failure) {
    std::strncpy(error->message, failure.what(), sizeof error->message - 1);
    return DLLM_ERROR;
  }
  out->edits = state.edits.data();
  out->n_edits = static_cast<std::uint32_t>(state.edits.size());
  return DLLM_OK;
}

}  // namespace detail

inline dllm_model_facts fake_facts() {
  static const std::int32_t stop_ids[] = {FakeModel::kStop};
  dllm_model_facts facts{};
  facts.struct_size = sizeof facts;
  facts.n_vocab = FakeModel::kRows;
  facts.n_tokens = FakeModel::kTokens;
  facts.mask_id = FakeModel::kMask;
  facts.bos_id = facts.eot_id = facts.pad_id = -1;
  facts.eos_id = FakeModel::kStop;
  facts.context_length = 64;
  facts.n_stop_ids = 1;
  facts.stop_ids = stop_ids;
  return facts;
}

using Extension = const void* (*)(const char* name);

inline std::shared_ptr<const Sampler> make_sampler(const Script& script,
                                                   Extension extension = nullptr) {
  static const dllm_sampler_v1 plain = [] {
    dllm_sampler_v1 t{};
    t.struct_size = sizeof t;
    t.create = detail::create;
    t.destroy = detail::destroy;
    t.start = detail::start;
    t.end = detail::end;
    t.plan = detail::plan;
    t.apply = detail::apply;
    return t;
  }();
  // Tables live for ever; one for each extension a test has.
  static std::map<Extension, dllm_sampler_v1> tables;
  dllm_sampler_v1& table = tables.try_emplace(extension, plain).first->second;
  table.get_extension = extension;
  detail::script_in_hand() = &script;
  return std::make_shared<const Sampler>(nullptr, "script", &table, std::vector<OptionInfo>{},
                                         OptionValues{}, fake_facts());
}

/// Asks for every masked position; commits the `per_step` first of them.
inline Script commit_left_to_right(std::size_t per_step) {
  Script script;
  script.plan = [](const dllm_canvas& canvas, dllm_plan& plan,
                   std::vector<std::uint32_t>& positions) {
    plan.want = DLLM_STAT_SAMPLED;
    for (std::uint32_t i = 0; i < canvas.n_positions; ++i) {
      if (canvas.state[i] == DLLM_POSITION_MASKED) positions.push_back(i);
    }
  };
  script.apply = [per_step](const dllm_canvas&, const dllm_stats& stats,
                            std::vector<dllm_edit>& edits) {
    for (std::uint32_t i = 0; i < stats.n_rows && i < per_step; ++i) {
      edits.push_back(
          {stats.positions[i], stats.sampled[i], DLLM_EDIT_COMMIT, stats.sampled_prob[i]});
    }
    return edits.size() == stats.n_rows ? DLLM_RUN_FINISHED : DLLM_RUN_RUNNING;
  };
  return script;
}

/// A canvas from ids: positions that hold the mask are editable.
inline SequenceRequest request_of(std::vector<std::int32_t> ids,
                                  std::shared_ptr<const Sampler> sampler) {
  SequenceRequest request;
  for (const std::int32_t id : ids) request.editable.push_back(id == FakeModel::kMask ? 1 : 0);
  request.ids = std::move(ids);
  request.sampler = std::move(sampler);
  request.facts = fake_facts();
  return request;
}

}  // namespace dllm::test

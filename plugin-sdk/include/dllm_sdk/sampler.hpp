// Writing a sampler in C++: base classes over the C boundary of sampler_abi.h.
//
//   class FirstRun : public dllm::sdk::Run { plan(...) and apply(...) };
//   class FirstSampler : public dllm::sdk::Sampler { start(...) makes a FirstRun };
//   DLLM_SAMPLER_PLUGIN("first", "1.0.0", "from left to right", FirstSampler, kOptions)
//
// The classes are in sampler_rule.hpp; this header carries them over the boundary. Exceptions stop
// here: OptionError becomes DLLM_BAD_OPTION, any other std::exception DLLM_ERROR, both with what()
// as the message. docs/writing-a-sampler.md grows an example from minimal to full.
//
// A rule that declares `static const void* extension(const char* name)` answers for plugin
// extensions (presets_abi.h); it must be noexcept in deed: static data by name, or nullptr.
//
// Header only, C++17, standard library only.
#ifndef DLLM_SDK_SAMPLER_HPP
#define DLLM_SDK_SAMPLER_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "dllm_sdk/sampler_abi.h"
#include "dllm_sdk/sampler_rule.hpp"

namespace dllm::sdk {
namespace detail {

struct SamplerHandle {
  std::unique_ptr<Sampler> sampler;
};

struct RunHandle {
  std::unique_ptr<Run> run;
  Plan plan;
  Edits edits;
  bool planned = false;
  bool needs_logits = false;
  bool has_logits = false;  // of the plan that was made
};

// Cuts at a UTF-8 boundary where the message is too long.
inline void write_message(dllm_error* error, const char* text) {
  if (error == nullptr) return;
  if (text == nullptr) text = "an exception without a message";
  std::size_t length = std::strlen(text);
  if (length > sizeof(error->message) - 1) {
    length = sizeof(error->message) - 1;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0u) == 0x80u) --length;
  }
  std::memcpy(error->message, text, length);
  error->message[length] = '\0';
}

template <typename Body>
dllm_status guarded(dllm_error* error, Body&& body) noexcept {
  try {
    body();
    return DLLM_OK;
  } catch (const OptionError& caught) {
    write_message(error, caught.what());
    return DLLM_BAD_OPTION;
  } catch (const std::exception& caught) {
    write_message(error, caught.what());
  } catch (...) {
    write_message(error, "the sampler threw something that is no std::exception");
  }
  return DLLM_ERROR;
}

inline void export_plan(const Plan& plan, dllm_plan& out) {
  out.flags = plan.allow_all ? DLLM_PLAN_ALLOW_ALL : 0u;
  out.n_positions = static_cast<std::uint32_t>(plan.positions.size());
  out.want = plan.want;
  out.positions = plan.positions.data();
  out.domain = plan.domain;
  out.temperature = plan.temperature;
  out.top_p = plan.top_p;
  out.top_k = plan.top_k;
  out.guidance_scale = plan.guidance_scale;
  out.n_suppress_both = static_cast<std::uint32_t>(plan.suppress_both.size());
  out.n_suppress_confidence = static_cast<std::uint32_t>(plan.suppress_confidence.size());
  out.n_prob_of = static_cast<std::uint32_t>(plan.prob_of.size());
  out.n_top_list = plan.n_top_list;
  out.suppress_both = plan.suppress_both.data();
  out.suppress_confidence = plan.suppress_confidence.data();
  out.prob_of = plan.prob_of.data();
}

// A row whose logits are all suppressed has no candidate: no token to commit.
inline void check_candidates(const dllm_stats& stats, const std::int32_t* tokens) {
  if (tokens == nullptr) return;
  for (std::uint32_t row = 0; row < stats.n_rows; ++row) {
    if (tokens[row] >= 0) continue;
    throw std::runtime_error("position " + std::to_string(stats.positions[row]) +
                             " has no candidate: every token is suppressed");
  }
}

inline void check_array(const Plan& plan, std::uint32_t bit, const void* array, const char* name) {
  if ((plan.want & bit) != 0 && array == nullptr) {
    throw std::runtime_error(std::string("statistic '") + name +
                             "' was wanted by the plan and is missing");
  }
}

// The host's answer must be to the plan that was made: a rule then reads it without looking.
inline void check_stats(const Plan& plan, const dllm_stats& stats) {
  if (stats.n_rows != plan.positions.size()) {
    throw std::runtime_error("statistics have " + std::to_string(stats.n_rows) +
                             " rows, the plan asked for " + std::to_string(plan.positions.size()));
  }
  if (stats.n_rows == 0) return;
  if (stats.positions == nullptr ||
      !std::equal(plan.positions.begin(), plan.positions.end(), stats.positions)) {
    throw std::runtime_error("statistics are of other positions than the plan asked for");
  }
  check_array(plan, DLLM_STAT_SAMPLED, stats.sampled, "sampled");
  check_array(plan, DLLM_STAT_SAMPLED, stats.sampled_prob, "sampled_prob");
  check_array(plan, DLLM_STAT_ARGMAX, stats.argmax, "argmax");
  check_array(plan, DLLM_STAT_TOP2, stats.top1_prob, "top1_prob");
  check_array(plan, DLLM_STAT_TOP2, stats.top2_prob, "top2_prob");
  check_array(plan, DLLM_STAT_ENTROPY, stats.entropy, "entropy");
  check_array(plan, DLLM_STAT_LOG_SUM_EXP, stats.log_sum_exp, "log_sum_exp");
  check_array(plan, DLLM_STAT_PROB_OF, stats.prob_of, "prob_of");
  check_array(plan, DLLM_STAT_TOP_LIST, stats.top_ids, "top_ids");
  check_array(plan, DLLM_STAT_TOP_LIST, stats.top_probs, "top_probs");
  check_candidates(stats, (plan.want & DLLM_STAT_SAMPLED) != 0 ? stats.sampled : nullptr);
  check_candidates(stats, (plan.want & DLLM_STAT_ARGMAX) != 0 ? stats.argmax : nullptr);
  // Both counts are strides: more than was asked for is as good.
  if ((plan.want & DLLM_STAT_PROB_OF) != 0 && stats.n_prob_of < plan.prob_of.size()) {
    throw std::runtime_error("statistics give " + std::to_string(stats.n_prob_of) +
                             " probabilities a row, the plan named " +
                             std::to_string(plan.prob_of.size()) + " ids");
  }
  if ((plan.want & DLLM_STAT_TOP_LIST) != 0 && stats.n_top_list < plan.n_top_list) {
    throw std::runtime_error("statistics list " + std::to_string(stats.n_top_list) +
                             " tokens a row, the plan asked for " +
                             std::to_string(plan.n_top_list));
  }
}

template <typename Rule>
dllm_status create(const dllm_option_value* values, std::uint32_t n_values,
                   const dllm_model_facts* facts, dllm_sampler** out, dllm_error* error) {
  return guarded(error, [&] {
    auto handle = std::make_unique<SamplerHandle>();
    handle->sampler = std::make_unique<Rule>(Options(values, n_values), *facts);
    *out = reinterpret_cast<dllm_sampler*>(handle.release());
  });
}

inline void destroy(dllm_sampler* sampler) { delete reinterpret_cast<SamplerHandle*>(sampler); }

// The rule's `static const void* extension(const char* name)`, where it has one.
using ExtensionFunction = const void* (*)(const char*);
template <typename Rule>
constexpr auto extension_of(int) -> decltype(ExtensionFunction(&Rule::extension)) {
  return &Rule::extension;
}
template <typename Rule>
constexpr ExtensionFunction extension_of(long) {
  return nullptr;
}

inline dllm_status take_logits(dllm_sampler_run* run, const dllm_canvas* canvas,
                               const dllm_raw_logits* logits, dllm_error* error) {
  return guarded(error, [&] {
    auto& handle = *reinterpret_cast<RunHandle*>(run);
    if (!handle.planned || logits->n_rows != handle.plan.positions.size()) {
      throw std::runtime_error("logits of " + std::to_string(logits->n_rows) +
                               " rows, the plan asked for " +
                               std::to_string(handle.planned ? handle.plan.positions.size() : 0));
    }
    handle.run->take_logits(Canvas(*canvas), Logits(*logits));
    handle.has_logits = true;
  });
}

}  // namespace detail

/// What extension() answers to DLLM_EXTENSION_RAW_LOGITS, for a rule that overrides
/// Run::take_logits. A host that does not know the extension gets an error from its apply.
inline constexpr dllm_raw_logits_v1 kRawLogitsTable = {sizeof(dllm_raw_logits_v1), 0,
                                                       &detail::take_logits};

namespace detail {

template <typename Rule>
bool needs_logits() {
  constexpr ExtensionFunction kExtension = extension_of<Rule>(0);
  if constexpr (kExtension == nullptr) {
    return false;
  } else {
    return kExtension(DLLM_EXTENSION_RAW_LOGITS) == &kRawLogitsTable;
  }
}

template <typename Rule>
dllm_status start(const dllm_sampler* sampler, const dllm_canvas* canvas, std::uint64_t seed,
                  dllm_sampler_run** out, dllm_error* error) {
  return guarded(error, [&] {
    auto handle = std::make_unique<RunHandle>();
    handle->run =
        reinterpret_cast<const SamplerHandle*>(sampler)->sampler->start(Canvas(*canvas), seed);
    if (handle->run == nullptr) throw std::logic_error("start() returned no run");
    handle->needs_logits = needs_logits<Rule>();
    *out = reinterpret_cast<dllm_sampler_run*>(handle.release());
  });
}

inline void end(dllm_sampler_run* run) { delete reinterpret_cast<RunHandle*>(run); }

inline dllm_status plan(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                        dllm_error* error) {
  return guarded(error, [&] {
    auto& handle = *reinterpret_cast<RunHandle*>(run);
    handle.planned = handle.has_logits = false;
    handle.plan = Plan();
    handle.run->plan(Canvas(*canvas), handle.plan);
    export_plan(handle.plan, *out);
    handle.planned = true;
  });
}

inline dllm_status apply(dllm_sampler_run* run, const dllm_canvas* canvas, const dllm_stats* stats,
                         dllm_edits* out, dllm_error* error) {
  return guarded(error, [&] {
    auto& handle = *reinterpret_cast<RunHandle*>(run);
    if (!handle.planned) throw std::runtime_error("apply was called without a plan before it");
    check_stats(handle.plan, *stats);
    if (handle.needs_logits && !handle.has_logits && stats->n_rows > 0) {
      throw std::runtime_error(
          "it reads whole logits, and this host hands out none: it needs a "
          "host that knows the extension " DLLM_EXTENSION_RAW_LOGITS);
    }
    handle.planned = false;
    handle.edits.clear();
    const Progress progress = handle.run->apply(Canvas(*canvas), Stats(*stats), handle.edits);
    out->status = static_cast<std::uint32_t>(progress);
    out->n_edits = static_cast<std::uint32_t>(handle.edits.size());
    out->edits = handle.edits.list().data();
  });
}

}  // namespace detail

/// The C table of a rule; `options` must live for ever.
template <typename Rule>
constexpr dllm_sampler_v1 make_table(const dllm_option_info* options, std::uint32_t n_options) {
  return {sizeof(dllm_sampler_v1),
          n_options,
          options,
          &detail::create<Rule>,
          &detail::destroy,
          &detail::start<Rule>,
          &detail::end,
          &detail::plan,
          &detail::apply,
          detail::extension_of<Rule>(0)};
}
template <typename Rule, std::size_t N>
constexpr dllm_sampler_v1 make_table(const dllm_option_info (&options)[N]) {
  return make_table<Rule>(options, static_cast<std::uint32_t>(N));
}
/// Of a rule without options.
template <typename Rule>
constexpr dllm_sampler_v1 make_table(std::nullptr_t) {
  return make_table<Rule>(nullptr, 0);
}

}  // namespace dllm::sdk

/// Defines the descriptor note, the table and the entry point; once per plugin, at file scope.
/// `id_` is what the user types, `options_` an array of dllm_option_info or nullptr.
#define DLLM_SAMPLER_PLUGIN(id_, version_, summary_, Rule, options_)                              \
  DLLM_PLUGIN_NOTE(DLLM_PLUGIN_KIND_SAMPLER, id_, version_, "", summary_);                        \
  extern "C" DLLM_PLUGIN_EXPORT const void* dllm_plugin_entry(const dllm_host_v1*, dllm_error*) { \
    static constexpr dllm_sampler_v1 table = ::dllm::sdk::make_table<Rule>(options_);             \
    return &table;                                                                                \
  }

#endif

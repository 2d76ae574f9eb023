// Writing a sampler in C++: base classes over the C boundary of sampler_abi.h.
//
//   class First : public dllm::sdk::Run { void plan(...) const override; Progress apply(...)
//   override; }; class FirstSampler : public dllm::sdk::Sampler { ... start() makes a First };
//   DLLM_SAMPLER_PLUGIN("first", "1.0.0", "commits from left to right", FirstSampler, kOptions)
//
// One class is the configured rule (immutable, shared, any thread), the other one sequence's state
// (one thread at a time). Options are data: an array of dllm_option_info made by the *_option
// functions. Exceptions stop here: OptionError becomes DLLM_BAD_OPTION, any other std::exception
// DLLM_ERROR, both with what() as the message. docs/writing-a-sampler.md grows an example from
// minimal to full.
//
// Header only, C++17, standard library only.
#ifndef DLLM_SDK_SAMPLER_HPP
#define DLLM_SDK_SAMPLER_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dllm_sdk/philox.h"
#include "dllm_sdk/sampler_abi.h"

namespace dllm::sdk {

/// Thrown for what the user can correct: options that do not fit each other, the model or the
/// canvas.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// ---- options as data ----

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// `default_value` is text, as the user would type it; `flags` DLLM_OPTION_*_EXCLUSIVE.
constexpr dllm_option_info integer_option(const char* name, const char* default_value,
                                          double minimum, double maximum, const char* help) {
  return {sizeof(dllm_option_info),
          DLLM_OPTION_INTEGER,
          name,
          default_value,
          help,
          minimum,
          maximum,
          0,
          0,
          nullptr};
}

constexpr dllm_option_info number_option(const char* name, const char* default_value,
                                         double minimum, double maximum, const char* help,
                                         std::uint32_t flags = 0) {
  return {sizeof(dllm_option_info),
          DLLM_OPTION_NUMBER,
          name,
          default_value,
          help,
          minimum,
          maximum,
          flags,
          0,
          nullptr};
}

constexpr dllm_option_info boolean_option(const char* name, const char* default_value,
                                          const char* help) {
  return {sizeof(dllm_option_info),
          DLLM_OPTION_BOOLEAN,
          name,
          default_value,
          help,
          0,
          1,
          0,
          0,
          nullptr};
}

/// `choices` must live for ever: a constant at namespace scope.
template <std::size_t N>
constexpr dllm_option_info choice_option(const char* name, const char* default_value,
                                         const char* const (&choices)[N], const char* help) {
  return {sizeof(dllm_option_info),
          DLLM_OPTION_CHOICE,
          name,
          default_value,
          help,
          0,
          0,
          0,
          static_cast<std::uint32_t>(N),
          choices};
}

constexpr dllm_option_info text_option(const char* name, const char* default_value,
                                       const char* help) {
  return {
      sizeof(dllm_option_info), DLLM_OPTION_TEXT, name, default_value, help, 0, 0, 0, 0, nullptr};
}

/// The values of the declared options, already checked against their ranges by the host.
class Options {
 public:
  Options(const dllm_option_value* values, std::uint32_t n_values)
      : values_(values), n_values_(n_values) {}

  std::int64_t integer(const char* name) const { return find(name).integer; }
  double number(const char* name) const { return find(name).number; }
  bool boolean(const char* name) const { return find(name).integer != 0; }
  std::string text(const char* name) const { return find(name).text; }

 private:
  const dllm_option_value& find(const char* name) const {
    for (std::uint32_t i = 0; i < n_values_; ++i) {
      if (std::strcmp(values_[i].name, name) == 0) return values_[i];
    }
    throw std::logic_error(std::string("option '") + name + "' is read but was not declared");
  }

  const dllm_option_value* values_;
  std::uint32_t n_values_;
};

// ---- what a run sees and says ----

/// One sequence as it stands; a view, valid for the call.
class Canvas {
 public:
  explicit Canvas(const dllm_canvas& canvas) : canvas_(canvas) {}

  std::uint32_t size() const { return canvas_.n_positions; }
  std::int32_t id(std::uint32_t position) const { return canvas_.ids[position]; }
  std::uint32_t state(std::uint32_t position) const { return canvas_.state[position]; }
  bool editable(std::uint32_t position) const { return canvas_.editable[position] != 0; }
  /// Rounds finished so far: the step of every random draw.
  std::uint32_t step() const { return canvas_.step; }
  const dllm_canvas& raw() const { return canvas_; }

  /// Masked and editable: what a rule may fill.
  bool open(std::uint32_t position) const {
    return state(position) == DLLM_POSITION_MASKED && editable(position);
  }

  /// Open positions in [begin, end), ascending; end is cut to size().
  std::vector<std::uint32_t> open_positions(
      std::uint32_t begin = 0,
      std::uint32_t end = std::numeric_limits<std::uint32_t>::max()) const {
    std::vector<std::uint32_t> positions;
    for (std::uint32_t i = begin; i < std::min(end, size()); ++i) {
      if (open(i)) positions.push_back(i);
    }
    return positions;
  }

 private:
  const dllm_canvas& canvas_;
};

/// What to score this step and what to know of it (dllm_plan). No positions: no forward is needed.
struct Plan {
  std::vector<std::uint32_t> positions;  ///< strictly ascending
  std::uint32_t want = 0;                ///< DLLM_STAT_*
  std::uint32_t domain = DLLM_DOMAIN_RAW;
  float temperature = 0;
  float top_p = 1;
  std::uint32_t top_k = 0;
  float guidance_scale = 0;
  bool allow_all = false;  ///< mask id and ids without token may be candidates
  std::vector<std::int32_t> suppress_both;
  std::vector<std::int32_t> suppress_confidence;
  std::vector<std::int32_t> prob_of;
  std::uint32_t n_top_list = 0;
};

/// The answers, row r for the plan's r-th position. Only what was wanted may be read.
class Stats {
 public:
  explicit Stats(const dllm_stats& stats) : stats_(stats) {}

  std::uint32_t rows() const { return stats_.n_rows; }
  std::uint32_t position(std::uint32_t row) const { return stats_.positions[row]; }
  std::int32_t sampled(std::uint32_t row) const { return stats_.sampled[row]; }
  float sampled_prob(std::uint32_t row) const { return stats_.sampled_prob[row]; }
  std::int32_t argmax(std::uint32_t row) const { return stats_.argmax[row]; }
  float top1_prob(std::uint32_t row) const { return stats_.top1_prob[row]; }
  float top2_prob(std::uint32_t row) const { return stats_.top2_prob[row]; }
  float entropy(std::uint32_t row) const { return stats_.entropy[row]; }
  float log_sum_exp(std::uint32_t row) const { return stats_.log_sum_exp[row]; }
  float prob_of(std::uint32_t row, std::uint32_t j) const {
    return stats_.prob_of[static_cast<std::size_t>(row) * stats_.n_prob_of + j];
  }
  std::int32_t top_id(std::uint32_t row, std::uint32_t j) const {
    return stats_.top_ids[static_cast<std::size_t>(row) * stats_.n_top_list + j];
  }
  float top_prob(std::uint32_t row, std::uint32_t j) const {
    return stats_.top_probs[static_cast<std::size_t>(row) * stats_.n_top_list + j];
  }

 private:
  const dllm_stats& stats_;
};

/// The changes a run makes; each position at most once.
class Edits {
 public:
  void commit(std::uint32_t position, std::int32_t token, double confidence) {
    add(position, token, DLLM_EDIT_COMMIT, confidence);
  }
  void commit_revocable(std::uint32_t position, std::int32_t token, double confidence) {
    add(position, token, DLLM_EDIT_COMMIT_REVOCABLE, confidence);
  }
  void replace(std::uint32_t position, std::int32_t token, double confidence) {
    add(position, token, DLLM_EDIT_REPLACE, confidence);
  }
  void remask(std::uint32_t position, double confidence) {
    add(position, 0, DLLM_EDIT_REMASK, confidence);
  }
  std::size_t size() const { return edits_.size(); }
  const std::vector<dllm_edit>& list() const { return edits_; }
  void clear() { edits_.clear(); }

 private:
  void add(std::uint32_t position, std::int32_t token, std::uint32_t kind, double confidence) {
    edits_.push_back({position, token, kind, static_cast<float>(confidence)});
  }

  std::vector<dllm_edit> edits_;
};

enum class Progress : std::uint32_t { running = DLLM_RUN_RUNNING, finished = DLLM_RUN_FINISHED };

/// One sequence's state. [one thread per run]
class Run {
 public:
  virtual ~Run() = default;
  /// Const, so that asking twice gives the same plan. `plan` arrives empty.
  virtual void plan(const Canvas& canvas, Plan& plan) const = 0;
  /// Once per round. `stats` has been checked against the plan: same positions, all that was
  /// wanted.
  virtual Progress apply(const Canvas& canvas, const Stats& stats, Edits& edits) = 0;
};

/// A configured rule. Its constructor takes (const Options&, const dllm_model_facts&) and throws
/// OptionError for options that do not fit each other or the model. [any thread]
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Throws OptionError for what does not fit the canvas: the host asks before weights are loaded.
  virtual std::unique_ptr<Run> start(const Canvas& canvas, std::uint64_t seed) const = 0;
};

// ---- helpers for rules ----

/// Indices of the `count` largest scores (all if fewer), in ascending index order. Equal scores:
/// the lower index first. Throws for NaN, which no order can rank.
inline std::vector<std::uint32_t> largest(const std::vector<double>& scores, std::size_t count) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) {
      throw std::runtime_error("the score of row " + std::to_string(i) + " of " +
                               std::to_string(scores.size()) + " is not a number");
    }
  }
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

/// A temperature option as a plan carries it. Throws OptionError for a positive one so small that
/// logits divided by it would overflow.
inline float plan_temperature(double temperature) {
  constexpr double kSmallest = 1e-6;
  if (temperature > 0 && temperature < kSmallest) {
    throw OptionError("temperature " + std::to_string(temperature) +
                      " is positive but below 0.000001. Fix: give 0 for the most likely token");
  }
  return static_cast<float>(temperature);
}

// ---- the boundary ----

namespace detail {

struct SamplerHandle {
  std::unique_ptr<Sampler> sampler;
};

struct RunHandle {
  std::unique_ptr<Run> run;
  Plan plan;
  Edits edits;
  bool planned = false;
};

// Cuts at a UTF-8 boundary where the message is too long.
inline void write_message(dllm_error* error, const char* text) {
  if (error == nullptr) return;
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

inline dllm_status start(const dllm_sampler* sampler, const dllm_canvas* canvas, std::uint64_t seed,
                         dllm_sampler_run** out, dllm_error* error) {
  return guarded(error, [&] {
    auto handle = std::make_unique<RunHandle>();
    handle->run =
        reinterpret_cast<const SamplerHandle*>(sampler)->sampler->start(Canvas(*canvas), seed);
    if (handle->run == nullptr) throw std::logic_error("start() returned no run");
    *out = reinterpret_cast<dllm_sampler_run*>(handle.release());
  });
}

inline void end(dllm_sampler_run* run) { delete reinterpret_cast<RunHandle*>(run); }

inline dllm_status plan(dllm_sampler_run* run, const dllm_canvas* canvas, dllm_plan* out,
                        dllm_error* error) {
  return guarded(error, [&] {
    auto& handle = *reinterpret_cast<RunHandle*>(run);
    handle.planned = false;
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
template <typename Rule, std::size_t N>
constexpr dllm_sampler_v1 make_table(const dllm_option_info (&options)[N]) {
  return {sizeof(dllm_sampler_v1),
          static_cast<std::uint32_t>(N),
          options,
          &detail::create<Rule>,
          &detail::destroy,
          &detail::start,
          &detail::end,
          &detail::plan,
          &detail::apply,
          nullptr};
}

/// The table of a rule without options.
template <typename Rule>
constexpr dllm_sampler_v1 make_table(std::nullptr_t) {
  return {sizeof(dllm_sampler_v1),
          0,
          nullptr,
          &detail::create<Rule>,
          &detail::destroy,
          &detail::start,
          &detail::end,
          &detail::plan,
          &detail::apply,
          nullptr};
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

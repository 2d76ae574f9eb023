// What a rule is written with: options as data, Canvas, Plan, Stats, Edits, and the two classes to
// derive from. Include dllm_sdk/sampler.hpp, which adds the export macro.
//
// Sampler is the configured rule: immutable, shared, any thread. Run is one sequence's state: one
// thread at a time. Views (Canvas, Stats) are valid for the call they are passed to.
#ifndef DLLM_SDK_SAMPLER_RULE_HPP
#define DLLM_SDK_SAMPLER_RULE_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "dllm_sdk/philox.h"
#include "dllm_sdk/raw_logits_abi.h"
#include "dllm_sdk/sampler_abi.h"

namespace dllm::sdk {

/// Thrown for what the user can correct: options that do not fit each other, the model or the
/// canvas.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Options as data.

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

// What a run sees and says.

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

/// The answers, row r for the plan's r-th position. Only what was wanted may be read: anything else
/// throws std::logic_error with its name, which ends the run as an error.
class Stats {
 public:
  explicit Stats(const dllm_stats& stats) : stats_(stats) {}

  std::uint32_t rows() const { return stats_.n_rows; }
  std::uint32_t position(std::uint32_t row) const { return stats_.positions[row]; }
  std::int32_t sampled(std::uint32_t row) const { return at(stats_.sampled, "sampled", row); }
  float sampled_prob(std::uint32_t row) const {
    return at(stats_.sampled_prob, "sampled_prob", row);
  }
  std::int32_t argmax(std::uint32_t row) const { return at(stats_.argmax, "argmax", row); }
  float top1_prob(std::uint32_t row) const { return at(stats_.top1_prob, "top1_prob", row); }
  float top2_prob(std::uint32_t row) const { return at(stats_.top2_prob, "top2_prob", row); }
  float entropy(std::uint32_t row) const { return at(stats_.entropy, "entropy", row); }
  float log_sum_exp(std::uint32_t row) const { return at(stats_.log_sum_exp, "log_sum_exp", row); }
  float prob_of(std::uint32_t row, std::uint32_t j) const {
    return at(stats_.prob_of, "prob_of", static_cast<std::size_t>(row) * stats_.n_prob_of + j);
  }
  std::int32_t top_id(std::uint32_t row, std::uint32_t j) const {
    return at(stats_.top_ids, "top_ids", static_cast<std::size_t>(row) * stats_.n_top_list + j);
  }
  float top_prob(std::uint32_t row, std::uint32_t j) const {
    return at(stats_.top_probs, "top_probs", static_cast<std::size_t>(row) * stats_.n_top_list + j);
  }

 private:
  // The commonest slip of a new rule would otherwise be a read through null.
  template <class T>
  static T at(const T* values, const char* name, std::size_t index) {
    if (values == nullptr) {
      throw std::logic_error(std::string("statistic '") + name +
                             "' is read but the plan did not want it");
    }
    return values[index];
  }

  const dllm_stats& stats_;
};

/// Whole logits, row r for the plan's r-th position; a view, valid for the call.
class Logits {
 public:
  explicit Logits(const dllm_raw_logits& logits) : logits_(logits) {}

  std::uint32_t rows() const { return logits_.n_rows; }
  std::uint32_t vocabulary() const { return logits_.n_vocab; }
  std::uint32_t position(std::uint32_t row) const { return logits_.positions[row]; }
  /// [vocabulary()] of one row.
  const float* row(std::uint32_t row) const {
    return logits_.values + static_cast<std::size_t>(row) * logits_.n_vocab;
  }

 private:
  const dllm_raw_logits& logits_;
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
  /// Between plan and apply where there are rows, of a rule whose extension() hands out
  /// kRawLogitsTable.
  virtual void take_logits(const Canvas&, const Logits&) {}
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

// Helpers for rules.

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
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

/// A temperature option as a plan carries it. Throws OptionError for a positive one so small that
/// logits divided by it would overflow.
inline float plan_temperature(double temperature) {
  constexpr double kSmallest = 1e-6;
  if (temperature > 0 && temperature < kSmallest) {
    char value[32];  // to_string would show 0.000000
    std::snprintf(value, sizeof value, "%g", temperature);
    throw OptionError(std::string("temperature ") + value +
                      " is positive but below 0.000001. Fix: give 0 for the most likely token");
  }
  return static_cast<float>(temperature);
}

}  // namespace dllm::sdk

#endif

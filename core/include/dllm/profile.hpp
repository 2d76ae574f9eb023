// Where the time of a step goes: spans that a backend and the engine report to a sink.
//
//   MySink sink;                        // : public dllm::ProfileSink
//   backend.set_profile(&sink);         // null again: nothing is measured, one branch per op
//   engine.set_profile(&sink);
//
// Inside a backend that works while its caller waits, each op holds one StageTimer:
//
//   StageTimer timer(profile_, Stage::out, "linear_residual");
//   timer.add_integer_work(2.0 * n_rows * n_weights, weight_bytes);
//
// A device that runs behind its caller records events instead and reports the spans of a step when
// head_stats or logits has waited for it, at the latest before that call returns.
// Times are nanoseconds of std::chrono::steady_clock. Thread rule: span() and move() come from the
// thread that runs the step, work() from any, one call at a time per `thread`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dllm {

/// Parts of a step. Each moment of an op belongs to one stage; `other` is what no op covers.
enum class Stage : std::uint8_t {
  embed,      ///< embedding rows
  qkv,        ///< norm and projections of one input (norm_linear)
  attention,  ///< rope and attention
  out,        ///< output projection and residual (linear_residual)
  ffn,        ///< gated_mlp, its norm and residual
  head,       ///< output norm and products with the output matrix
  stats,      ///< statistics of the scored rows
  sampler,    ///< plans, edits and their checks: the engine
  other       ///< copies, and time outside of ops
};
constexpr std::size_t kStages = 9;

constexpr std::string_view stage_name(Stage stage) {
  constexpr std::string_view kNames[kStages] = {"embed", "qkv",   "attention", "out",  "ffn",
                                                "head",  "stats", "sampler",   "other"};
  return kNames[static_cast<std::size_t>(stage)];
}

/// One stretch of the step.
struct StageSpan {
  Stage stage = Stage::other;
  const char* name = "";  ///< of the op or of its part; lives as long as the plugin
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  double integer_operations = 0;  ///< of its products, a multiply-add counts 2
  double float_operations = 0;
  double weight_bytes = 0;  ///< weights read, as they are stored
  bool is_part = false;     ///< lies inside a span that counts already: a detail
};

/// One hand-out of work items to one thread of the backend.
struct WorkSpan {
  std::uint32_t thread = 0;  ///< 0 to DeviceInfo::threads - 1
  std::uint32_t first_item = 0;
  std::uint32_t n_items = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

class ProfileSink {
 public:
  ProfileSink() = default;
  ProfileSink(const ProfileSink&) = delete;
  ProfileSink& operator=(const ProfileSink&) = delete;
  virtual ~ProfileSink() = default;

  virtual void span(const StageSpan& span) = 0;
  /// `ns` of what spans of `from` cover were spent for `to`: work that is done tile by tile in one
  /// go has no stretch of its own.
  virtual void move(Stage from, Stage to, std::int64_t ns) = 0;
  /// Whether work() is to be called at all; asked when the sink is set.
  virtual bool wants_work() const noexcept { return false; }
  virtual void work(const WorkSpan&) {}
};

inline std::int64_t profile_now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Reports its own lifetime as one span; does nothing without a sink.
class StageTimer {
 public:
  StageTimer(ProfileSink* sink, Stage stage, const char* name, bool is_part = false) noexcept
      : sink_(sink) {
    if (!sink_) return;
    span_.stage = stage;
    span_.name = name;
    span_.is_part = is_part;
    span_.begin_ns = profile_now_ns();
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() {
    if (!sink_) return;
    span_.end_ns = profile_now_ns();
    sink_->span(span_);
  }

  void add_integer_work(double operations, double weight_bytes) noexcept {
    span_.integer_operations += operations;
    span_.weight_bytes += weight_bytes;
  }
  void add_float_work(double operations, double weight_bytes) noexcept {
    span_.float_operations += operations;
    span_.weight_bytes += weight_bytes;
  }

 private:
  ProfileSink* sink_;
  StageSpan span_;
};

}  // namespace dllm

// Hosts of another version than ours. What a later minor of the ABI will do: every structure is
// longer than the plugin knows, by fields at its end; the plugin must neither refuse them nor write
// there. What an earlier host does: it never asks for an extension it does not know.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "check/rules.hpp"
#include "dllm/error.hpp"

namespace dllm::cli::checks {
namespace {

constexpr std::uint8_t kFiller = 0xA5;

/// A structure with fields of a later minor behind it.
template <typename T>
struct Longer {
  T known{};
  std::array<std::uint8_t, 64> later;

  Longer() {
    later.fill(kFiller);
    known.struct_size = sizeof *this;
  }
  void expect_untouched(const char* what) const {
    if (known.struct_size != sizeof *this) {
      throw Broken("newer_host", fmt::format("struct_size of {} was changed from {} to {}", what,
                                             sizeof *this, known.struct_size));
    }
    if (std::ranges::all_of(later, [](std::uint8_t byte) { return byte == kFiller; })) return;
    throw Broken("newer_host", fmt::format("bytes behind the {} it knows were written", what));
  }
};

Longer<dllm_canvas> longer(const Canvas& canvas) {
  Longer<dllm_canvas> out;
  out.known = canvas.view();
  out.known.struct_size = sizeof out;
  return out;
}

/// A call that reported an error.
struct Declined {
  const char* call;
  std::string message;
};

// The C table called by hand; ends what it started. Its calls throw Declined.
class RawRun {
 public:
  RawRun(const Subject& subject, const Scene& scene, bool knows_extensions)
      : table_(*subject.record.sampler),
        raw_logits_(knows_extensions ? sdk::raw_logits_of(table_) : nullptr),
        scene_(scene),
        canvas_(scene.ids, scene.editable, scene.facts) {
    Longer<dllm_model_facts> facts;
    facts.known = scene.facts;
    facts.known.struct_size = sizeof facts;
    std::vector<dllm_option_value> values;
    for (const OptionInfo& info : subject.record.options) {
      const OptionValue& value = subject.values.at(info.name);
      values.push_back({info.name.c_str(), value.text.c_str(), value.integer, value.number});
    }
    Longer<dllm_error> error;
    require(table_.create(values.data(), static_cast<std::uint32_t>(values.size()), &facts.known,
                          &sampler_, &error.known),
            error, "create");
    const auto view = longer(canvas_);
    require(table_.start(sampler_, &view.known, scene.seed, &run_, &error.known), error, "start");
  }
  RawRun(const RawRun&) = delete;
  RawRun& operator=(const RawRun&) = delete;
  ~RawRun() {
    if (run_ != nullptr) table_.end(run_);
    if (sampler_ != nullptr) table_.destroy(sampler_);
  }

  /// True when the run is finished.
  bool round() {
    const auto view = longer(canvas_);
    Longer<dllm_error> error;
    Longer<dllm_plan> plan;
    plan.known.top_p = 1;
    plan.known.window_end = canvas_.size();
    require(table_.plan(run_, &view.known, &plan.known, &error.known), error, "plan");
    plan.expect_untouched("dllm_plan");
    const std::uint64_t hash = canvas_hash(canvas_.ids(), scene_.seed);
    const auto rows = [&](std::uint32_t at) { return canned_row(scene_.facts, hash, at); };
    const sdk::Answers answers =
        sdk::answer_plan(plan.known, scene_.facts, scene_.seed, canvas_.step(), rows);
    if (raw_logits_ != nullptr && plan.known.n_positions > 0) {
      const sdk::RawRows given(plan.known, scene_.facts.n_vocab, rows);
      Longer<dllm_raw_logits> logits;
      logits.known = given.view();
      logits.known.struct_size = sizeof logits;
      require(raw_logits_->take(run_, &view.known, &logits.known, &error.known), error, "take");
    }
    Longer<dllm_stats> stats;
    stats.known = answers.view();
    stats.known.struct_size = sizeof stats;
    Longer<dllm_edits> edits;
    require(table_.apply(run_, &view.known, &stats.known, &edits.known, &error.known), error,
            "apply");
    edits.expect_untouched("dllm_edits");
    canvas_.apply(std::span(edits.known.edits, edits.known.n_edits), "this one");
    canvas_.advance();
    return edits.known.status == DLLM_RUN_FINISHED;
  }

 private:
  static void require(dllm_status status, const Longer<dllm_error>& error, const char* call) {
    error.expect_untouched("dllm_error");
    if (status == DLLM_OK) return;
    throw Declined{call, error.known.message};
  }

  const dllm_sampler_v1& table_;
  const dllm_raw_logits_v1* raw_logits_;
  const Scene& scene_;
  Canvas canvas_;
  dllm_sampler* sampler_ = nullptr;
  dllm_sampler_run* run_ = nullptr;
};

void play_raw(const char* rule, const Subject& subject, bool knows_extensions) {
  const Scene scene = plain_scene();
  RawRun run(subject, scene, knows_extensions);
  constexpr int kRounds = 3000;  // the plain play ended within fewer
  for (int i = 0; i < kRounds; ++i) {
    if (run.round()) return;
  }
  throw Broken(rule, "the run does not end");
}

}  // namespace

void newer_host(const Subject& subject) {
  try {
    play_raw("newer_host", subject, true);
  } catch (const Declined& declined) {
    throw Broken("newer_host", fmt::format("{}(): {}", declined.call, declined.message));
  }
}

void older_host(const Subject& subject) {
  if (sdk::raw_logits_of(*subject.record.sampler) == nullptr) {
    throw NotAsked("it offers no extension that a run needs");
  }
  try {
    play_raw("older_host", subject, false);
  } catch (const Declined& declined) {
    if (!declined.message.empty()) return;
    throw Broken("older_host", fmt::format("{}() failed without a message", declined.call));
  }
}

}  // namespace dllm::cli::checks

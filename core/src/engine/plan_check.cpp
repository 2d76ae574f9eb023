#include "dllm/plan_check.hpp"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string_view>

#include "dllm/error.hpp"

namespace dllm {
namespace {

constexpr std::uint32_t kKnownStats = DLLM_STAT_SAMPLED | DLLM_STAT_ARGMAX | DLLM_STAT_TOP2 |
                                      DLLM_STAT_ENTROPY | DLLM_STAT_LOG_SUM_EXP |
                                      DLLM_STAT_PROB_OF | DLLM_STAT_TOP_LIST;
constexpr std::uint32_t kMaxListed = 64;

// Null lists never get here: SamplerRun refuses them where the call returns.
class PlanChecker {
 public:
  PlanChecker(const dllm_plan& plan, const dllm_canvas& canvas, std::uint32_t n_vocab,
              const std::string& sampler)
      : plan_(plan), canvas_(canvas), n_vocab_(n_vocab), sampler_(sampler) {}

  void run() const {
    positions();
    parameters();
    ids("suppress_both", plan_.suppress_both, plan_.n_suppress_both, n_vocab_);
    ids("suppress_confidence", plan_.suppress_confidence, plan_.n_suppress_confidence, n_vocab_);
    ids("prob_of", plan_.prob_of, plan_.n_prob_of, kMaxListed);
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorCode::bad_plugin, fmt::format("plan of step {}: {}", canvas_.step, why),
                fmt::format("sampler {}", sampler_), "report it to the author of the sampler");
  }

  void positions() const {
    if (plan_.n_positions > canvas_.n_positions) {
      refuse(fmt::format("{} positions asked for, the canvas has {}", plan_.n_positions,
                         canvas_.n_positions));
    }
    for (std::uint32_t i = 0; i < plan_.n_positions; ++i) {
      const std::uint32_t position = plan_.positions[i];
      if (position >= canvas_.n_positions) {
        refuse(
            fmt::format("position {} is outside the canvas of {}", position, canvas_.n_positions));
      }
      if (i > 0 && position <= plan_.positions[i - 1]) {
        refuse(
            fmt::format("positions must ascend, {} follows {}", position, plan_.positions[i - 1]));
      }
    }
    if (plan_.window_begin != 0 || plan_.window_end != canvas_.n_positions) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("the plan restricts the forward to positions {} to {}; windows are "
                              "reserved and not built",
                              plan_.window_begin, plan_.window_end),
                  fmt::format("sampler {}", sampler_), "use a sampler that computes all positions");
    }
  }

  void parameters() const {
    if ((plan_.want & ~kKnownStats) != 0) {
      refuse(fmt::format("unknown statistics bits {:#x}", plan_.want & ~kKnownStats));
    }
    if ((plan_.flags & ~DLLM_PLAN_ALLOW_ALL) != 0) {
      refuse(fmt::format("unknown flags {:#x}", plan_.flags & ~DLLM_PLAN_ALLOW_ALL));
    }
    if (plan_.domain > DLLM_DOMAIN_FILTERED) refuse(fmt::format("unknown domain {}", plan_.domain));
    if (!std::isfinite(plan_.temperature) || plan_.temperature < 0) {
      refuse(fmt::format("temperature {} is not a number of at least 0", plan_.temperature));
    }
    if (!(plan_.top_p > 0 && plan_.top_p <= 1)) {
      refuse(fmt::format("top_p {} is not above 0 and at most 1", plan_.top_p));
    }
    if (!std::isfinite(plan_.guidance_scale)) {
      refuse(fmt::format("guidance_scale {} is not finite", plan_.guidance_scale));
    }
    if (plan_.n_top_list > kMaxListed) {
      refuse(fmt::format("n_top_list {} is above {}", plan_.n_top_list, kMaxListed));
    }
  }

  void ids(std::string_view field, const std::int32_t* values, std::uint32_t n,
           std::uint32_t limit) const {
    if (n > limit) {
      refuse(fmt::format("{} lists {} ids, at most {} are allowed", field, n, limit));
    }
    for (const std::int32_t id : std::span(values, n)) {
      if (id < 0 || static_cast<std::uint32_t>(id) >= n_vocab_) {
        refuse(fmt::format("{} holds id {}, the vocabulary has {} rows", field, id, n_vocab_));
      }
    }
  }

  const dllm_plan& plan_;
  const dllm_canvas& canvas_;
  std::uint32_t n_vocab_;
  const std::string& sampler_;
};

}  // namespace

void check_plan(const dllm_plan& plan, const dllm_canvas& canvas, std::uint32_t n_vocab,
                const std::string& sampler) {
  PlanChecker(plan, canvas, n_vocab, sampler).run();
}

}  // namespace dllm

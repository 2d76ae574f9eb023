// The whole of a plan, so that two can be compared after the pointers of the first have died.
#pragma once

#include <cstdint>
#include <vector>

#include "dllm_sdk/sampler_abi.h"

namespace dllm::test {

struct PlanCopy {
  explicit PlanCopy(const dllm_plan& plan)
      : numbers{plan.flags,  plan.want,  plan.window_begin, plan.window_end,
                plan.domain, plan.top_k, plan.n_top_list,   plan.n_positions},
        parameters{plan.temperature, plan.top_p, plan.guidance_scale},
        positions(plan.positions, plan.positions + plan.n_positions),
        suppress_both(plan.suppress_both, plan.suppress_both + plan.n_suppress_both),
        suppress_confidence(plan.suppress_confidence,
                            plan.suppress_confidence + plan.n_suppress_confidence),
        prob_of(plan.prob_of, plan.prob_of + plan.n_prob_of) {}
  bool operator==(const PlanCopy&) const = default;

  std::vector<std::uint32_t> numbers;
  std::vector<float> parameters;
  std::vector<std::uint32_t> positions;
  std::vector<std::int32_t> suppress_both, suppress_confidence, prob_of;
};

}  // namespace dllm::test

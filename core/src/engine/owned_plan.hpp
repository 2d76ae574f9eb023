// A plan whose lists are copied, so that it holds while the forward runs: a plugin may let another
// run, or a thread of its own, write where its plan's lists lie.
//
//   plan.take(run.plan(canvas));   // after check_plan, which bounds the lists
//
// Thread rule: a value, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "dllm_sdk/sampler_abi.h"

namespace dllm {

class OwnedPlan {
 public:
  OwnedPlan() = default;
  OwnedPlan(const OwnedPlan&) = delete;  // plan_ points into the lists
  OwnedPlan& operator=(const OwnedPlan&) = delete;

  void take(const dllm_plan& plan) {
    plan_ = plan;
    plan_.positions = copy(plan.positions, plan.n_positions, positions_);
    plan_.suppress_both = copy(plan.suppress_both, plan.n_suppress_both, suppress_both_);
    plan_.suppress_confidence =
        copy(plan.suppress_confidence, plan.n_suppress_confidence, suppress_confidence_);
    plan_.prob_of = copy(plan.prob_of, plan.n_prob_of, prob_of_);
  }
  const dllm_plan& get() const { return plan_; }

 private:
  template <typename T>
  static const T* copy(const T* from, std::uint32_t count, std::vector<T>& to) {
    to.assign(from, from + count);
    return to.data();
  }

  dllm_plan plan_{};
  std::vector<std::uint32_t> positions_;
  std::vector<std::int32_t> suppress_both_, suppress_confidence_, prob_of_;
};

}  // namespace dllm

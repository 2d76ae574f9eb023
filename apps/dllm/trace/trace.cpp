#include "trace/trace.hpp"

#include <fmt/format.h>

namespace dllm::cli {

bool TracePlan::same_statistics(const TracePlan& other) const {
  return domain == other.domain && allow_all == other.allow_all &&
         temperature == other.temperature && top_p == other.top_p && top_k == other.top_k &&
         guidance_scale == other.guidance_scale && suppress_both == other.suppress_both &&
         suppress_confidence == other.suppress_confidence;
}

std::string trace_place(const Trace& trace, std::size_t line) {
  return fmt::format("{}, line {}", trace.path, line);
}

TracePlan trace_plan(const dllm_plan& plan) {
  TracePlan out;
  out.positions.assign(plan.positions, plan.positions + plan.n_positions);
  out.want = plan.want;
  out.domain = plan.domain;
  out.allow_all = (plan.flags & DLLM_PLAN_ALLOW_ALL) != 0;
  out.temperature = plan.temperature;
  out.top_p = plan.top_p;
  out.top_k = plan.top_k;
  out.guidance_scale = plan.guidance_scale;
  out.suppress_both.assign(plan.suppress_both, plan.suppress_both + plan.n_suppress_both);
  out.suppress_confidence.assign(plan.suppress_confidence,
                                 plan.suppress_confidence + plan.n_suppress_confidence);
  return out;
}

std::string_view edit_kind_name(std::uint32_t kind) {
  switch (kind) {
    case DLLM_EDIT_COMMIT:
      return "commit";
    case DLLM_EDIT_REPLACE:
      return "replace";
    case DLLM_EDIT_REMASK:
      return "remask";
    case DLLM_EDIT_COMMIT_REVOCABLE:
      return "commit_revocable";
    default:
      return "unknown";
  }
}

}  // namespace dllm::cli

#include "trace/replay_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dllm/error.hpp"

namespace dllm::cli {
namespace {

// Temperature and filters that leave the distribution as it is.
bool is_identity(const TracePlan& plan) {
  return (plan.temperature == 0 || plan.temperature == 1) && plan.top_p == 1 && plan.top_k == 0;
}

bool of_raw(const TracePlan& plan) { return plan.domain == DLLM_DOMAIN_RAW || is_identity(plan); }

// The plan the SDK's statistics are computed with; borrows `request`.
dllm_plan abi_plan(const StatsRequest& request) {
  dllm_plan plan{};
  plan.struct_size = sizeof plan;
  plan.flags = request.allow_all ? DLLM_PLAN_ALLOW_ALL : 0;
  plan.want = request.want;
  plan.domain = request.domain == Domain::filtered ? DLLM_DOMAIN_FILTERED : DLLM_DOMAIN_RAW;
  plan.temperature = request.temperature;
  plan.top_p = request.top_p;
  plan.top_k = request.top_k;
  plan.guidance_scale = request.guided ? request.guidance_scale : 0;
  plan.suppress_both = request.suppress_both.data();
  plan.n_suppress_both = static_cast<std::uint32_t>(request.suppress_both.size());
  plan.suppress_confidence = request.suppress_confidence.data();
  plan.n_suppress_confidence = static_cast<std::uint32_t>(request.suppress_confidence.size());
  plan.prob_of = request.prob_of.data();
  plan.n_prob_of = static_cast<std::uint32_t>(request.prob_of.size());
  plan.n_top_list = request.top_list;
  return plan;
}

// Logits of the listed tokens: ln D, times the temperature D was taken at.
sdk::LogitRow logits_of(const TraceRow& row, const TracePlan& plan) {
  const double scale =
      of_raw(plan) || plan.temperature == 0 ? 1.0 : static_cast<double>(plan.temperature);
  sdk::LogitRow logits;
  for (std::size_t j = 0; j < row.top_ids.size(); ++j) {
    if (!(row.top_probs[j] > 0)) continue;
    const double z =
        std::log(static_cast<double>(row.top_probs[j])) + static_cast<double>(row.log_sum_exp);
    logits.push_back({row.top_ids[j], scale * z});
  }
  return logits;
}

double listed_prob(const TraceRow& row, std::int32_t id) {
  const auto found = std::ranges::find(row.top_ids, id);
  return found == row.top_ids.end()
             ? 0.0
             : static_cast<double>(
                   row.top_probs[static_cast<std::size_t>(found - row.top_ids.begin())]);
}

// What was recorded, where it was recorded of the same distribution: the list is cut, the figures
// are not.
void take_recorded(const TraceRow& row, const StatsRequest& request, sdk::RowStatistics& out) {
  out.argmax = row.argmax;
  out.top1_prob = static_cast<double>(row.top1_prob);
  out.top2_prob = static_cast<double>(row.top2_prob);
  out.entropy = static_cast<double>(row.entropy);
  out.log_sum_exp = static_cast<double>(row.log_sum_exp);
  if (request.temperature == 0) out.sampled = row.argmax;
  out.sampled_prob = listed_prob(row, out.sampled);
  for (std::size_t j = 0; j < request.prob_of.size(); ++j) {
    out.prob_of[j] = listed_prob(row, request.prob_of[j]);
  }
  for (std::size_t j = 0; j < out.top_ids.size(); ++j) {
    out.top_probs[j] = listed_prob(row, out.top_ids[j]);
  }
}

// Everything of the same request: the draw too.
void take_draw(const TraceRow& row, sdk::RowStatistics& out) {
  out.sampled = row.sampled;
  out.sampled_prob = static_cast<double>(row.sampled_prob);
}

void store(const sdk::RowStatistics& from, std::size_t row, HeadStats& stats) {
  stats.sampled[row] = from.sampled;
  stats.sampled_prob[row] = static_cast<float>(from.sampled_prob);
  stats.argmax[row] = from.argmax;
  stats.top1_prob[row] = static_cast<float>(from.top1_prob);
  stats.top2_prob[row] = static_cast<float>(from.top2_prob);
  stats.entropy[row] = static_cast<float>(from.entropy);
  stats.log_sum_exp[row] = static_cast<float>(from.log_sum_exp);
  stats.non_finite[row] = from.sampled < 0 ? 1 : 0;
  for (std::size_t j = 0; j < from.prob_of.size(); ++j) {
    stats.prob_of[row * stats.prob_of_stride + j] = static_cast<float>(from.prob_of[j]);
  }
  for (std::size_t j = 0; j < from.top_ids.size(); ++j) {
    stats.top_ids[row * stats.top_stride + j] = from.top_ids[j];
    stats.top_probs[row * stats.top_stride + j] = static_cast<float>(from.top_probs[j]);
  }
}

void write_edits(const TraceRound& round, std::int32_t mask_id, std::vector<std::int32_t>& ids) {
  for (const dllm_edit& edit : round.edits) {
    ids[edit.position] = edit.kind == DLLM_EDIT_REMASK ? mask_id : edit.token;
  }
}

}  // namespace

ReplayModel::ReplayModel(const Trace& trace) : trace_(trace) {
  const TraceHeader& header = trace.header;
  info_.architecture = "replay";
  info_.name = header.model;
  info_.n_vocab = header.facts.n_vocab;
  info_.context_length =
      std::max(header.facts.context_length, static_cast<std::uint32_t>(header.ids.size()));
  std::vector<std::int32_t> ids = header.ids;
  for (const TraceRound& round : trace.rounds) {
    if (round.forward && !round.rows.empty()) forwards_.push_back({&round, ids});
    write_edits(round, header.facts.mask_id, ids);
  }
}

const ReplayModel::Recorded& ReplayModel::nearest(std::span<const std::int32_t> ids,
                                                  bool& same) const {
  const auto distance = [&](const Recorded& recorded) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) n += ids[i] != recorded.ids[i] ? 1 : 0;
    return n;
  };
  const Recorded* best = &forwards_.front();
  std::size_t least = distance(*best);
  for (const Recorded& recorded : forwards_) {
    if (const std::size_t n = distance(recorded); n < least) {
      best = &recorded;
      least = n;
    }
  }
  same = least == 0;
  return *best;
}

void ReplayModel::answer(const Recorded& recorded, bool same, const StatsRequest& request,
                         std::size_t i, HeadStats& stats) {
  const std::uint32_t position = request.positions[i];
  const auto& rows = recorded.round->rows;
  const auto found = std::ranges::find(rows, position, &TraceRow::position);
  if (found == rows.end()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the trace has no row of position {}, which is not editable", position),
                "sampler's plan", "plan for editable positions only");
  }
  if (found->sampled < 0) {
    throw Error(ErrorCode::bad_file,
                fmt::format("what the model answered for position {} was not finite, and the "
                            "recorded sampler did not ask for it",
                            position),
                trace_place(trace_, recorded.round->line),
                "record a run of a model whose weights are whole");
  }
  const TracePlan& then = recorded.round->plan;
  const dllm_plan asked = abi_plan(request);
  const TracePlan now = trace_plan(asked);
  sdk::RowStatistics row = sdk::row_statistics(logits_of(*found, then), asked, trace_.header.facts,
                                               request.seed, request.step, position);
  const bool same_ids_suppressed = then.suppress_both == now.suppress_both &&
                                   then.suppress_confidence == now.suppress_confidence &&
                                   then.allow_all == now.allow_all &&
                                   then.guidance_scale == now.guidance_scale;
  const bool same_plan = then.same_statistics(now);
  if (same_plan || (same_ids_suppressed && of_raw(then) && of_raw(now))) {
    take_recorded(*found, request, row);
  }
  // A draw depends on seed and round too.
  const bool same_draw =
      same_plan && request.seed == trace_.header.seed && request.step == recorded.round->round;
  if (same_draw) take_draw(*found, row);
  const bool drawn = request.temperature > 0 && (request.want & kStatSampled) != 0;
  const bool exact =
      same && (same_draw || (!drawn && same_ids_suppressed && of_raw(then) && of_raw(now)));
  ++(exact ? exact_rows_ : approximate_rows_);
  store(row, request.first_row + i, stats);
}

void ReplayModel::forward_stats(const ForwardBatch& batch, std::span<const StatsRequest> requests,
                                HeadStats& stats) {
  for (const StatsRequest& request : requests) {
    // The conditional sequence, whose rows the request names: its tokens lie where they are scored.
    const std::uint32_t begin = batch.score[request.first_row] - request.positions.front();
    bool same = false;
    const Recorded& recorded = nearest(batch.ids.subspan(begin, trace_.header.ids.size()), same);
    for (std::size_t i = 0; i < request.positions.size(); ++i) {
      answer(recorded, same, request, i, stats);
    }
  }
}

void ReplayModel::forward_logits(const ForwardBatch&, std::span<float> out) { last_logits(out); }

void ReplayModel::last_logits(std::span<float>) {
  throw Error(ErrorCode::unsupported, "a trace holds statistics, no whole logits", "replay",
              "run the model itself, or use a sampler that takes no raw logits");
}

}  // namespace dllm::cli

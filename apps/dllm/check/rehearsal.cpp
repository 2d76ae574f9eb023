#include "check/rehearsal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "dllm/error.hpp"
#include "dllm/plan_check.hpp"

namespace dllm::cli {
namespace {

constexpr std::int32_t kStopId = 998;
constexpr std::int32_t kMaskId = 999;

// splitmix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The call of a plugin, its failure as a broken rule. What it says the user can correct stays an
// Error (bad_usage).
template <typename Call>
auto as_rule(const char* rule, Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::bad_usage) throw;
    throw Broken(rule, error.fact());
  }
}

template <typename T>
bool same_bytes(const std::vector<T>& one, const std::vector<T>& other) {
  return std::ranges::equal(std::as_bytes(std::span(one)), std::as_bytes(std::span(other)));
}

// The first array in which the two differ, bit for bit (a damaged answer holds NaN); or null.
const char* changed_array(const sdk::Answers& one, const sdk::Answers& other) {
  if (!same_bytes(one.positions, other.positions)) return "positions";
  if (!same_bytes(one.sampled, other.sampled)) return "sampled";
  if (!same_bytes(one.sampled_prob, other.sampled_prob)) return "sampled_prob";
  if (!same_bytes(one.argmax, other.argmax)) return "argmax";
  if (!same_bytes(one.top1_prob, other.top1_prob)) return "top1_prob";
  if (!same_bytes(one.top2_prob, other.top2_prob)) return "top2_prob";
  if (!same_bytes(one.entropy, other.entropy)) return "entropy";
  if (!same_bytes(one.log_sum_exp, other.log_sum_exp)) return "log_sum_exp";
  if (!same_bytes(one.prob_of, other.prob_of)) return "prob_of";
  if (!same_bytes(one.top_ids, other.top_ids)) return "top_ids";
  if (!same_bytes(one.top_probs, other.top_probs)) return "top_probs";
  return nullptr;
}

// Rounds that no rule needs: the engine's progress guard, for the rounds without a forward too.
std::uint32_t round_budget(std::uint32_t n_positions) { return 1024 + 64 * n_positions; }

}  // namespace

Scene plain_scene(std::uint32_t given, std::uint32_t masked) {
  static constexpr std::int32_t kStops[] = {kStopId};
  Scene scene;
  scene.facts.struct_size = sizeof scene.facts;
  scene.facts.n_vocab = 1008;
  scene.facts.n_tokens = 1000;
  scene.facts.mask_id = kMaskId;
  scene.facts.bos_id = 996;
  scene.facts.eos_id = kStopId;
  scene.facts.eot_id = 997;
  scene.facts.pad_id = -1;
  scene.facts.context_length = 1u << 20;
  scene.facts.trained_block_length = 8;
  scene.facts.n_stop_ids = 1;
  scene.facts.stop_ids = kStops;
  for (std::uint32_t i = 0; i < given; ++i) scene.ids.push_back(static_cast<std::int32_t>(i) + 1);
  scene.ids.resize(given + masked, kMaskId);
  scene.editable.assign(given, 0);
  scene.editable.resize(given + masked, 1);
  return scene;
}

Scene scattered_scene() {
  Scene scene = plain_scene(40, 0);
  for (const std::uint32_t i : {0, 3, 4, 5, 17, 18, 19, 20, 21, 22, 30, 31, 39}) {
    scene.ids[i] = kMaskId;
    scene.editable[i] = 1;
  }
  for (const std::uint32_t i : {8, 9, 25}) scene.editable[i] = 1;
  for (const std::uint32_t i : {1, 12, 23, 38}) scene.ids[i] = kMaskId;
  return scene;
}

std::uint64_t canvas_hash(std::span<const std::int32_t> ids, std::uint64_t seed) {
  std::uint64_t hash = mix(seed);
  for (const std::int32_t id : ids) hash = mix(hash ^ static_cast<std::uint64_t>(id));
  return hash;
}

sdk::LogitRow canned_row(const dllm_model_facts& facts, std::uint64_t canvas,
                         std::uint32_t position) {
  constexpr std::uint32_t kTokens = 12;
  const std::uint64_t hash = mix(canvas ^ position);
  // Some rows are sure, some are not.
  const double spread = 0.5 + 8.0 * static_cast<double>(hash % 1024) / 1024;
  // One of each kTokens-th part of the vocabulary: no id comes twice.
  const std::uint32_t part = facts.n_vocab / kTokens;
  sdk::LogitRow row;
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    const std::uint64_t draw = mix(hash ^ (i + 1));
    const auto id = static_cast<std::int32_t>(i * part + draw % part);
    row.push_back({id, spread * static_cast<double>((draw >> 32) % 1024) / 1024});
  }
  return row;
}

PlanCopy::PlanCopy(const dllm_plan& plan)
    : positions(plan.positions, plan.positions + plan.n_positions),
      counts{plan.flags,  plan.want,  plan.window_begin, plan.window_end,
             plan.domain, plan.top_k, plan.n_top_list},
      numbers{plan.temperature, plan.top_p, plan.guidance_scale},
      suppress_both(plan.suppress_both, plan.suppress_both + plan.n_suppress_both),
      suppress_confidence(plan.suppress_confidence,
                          plan.suppress_confidence + plan.n_suppress_confidence),
      prob_of(plan.prob_of, plan.prob_of + plan.n_prob_of) {}

std::string first_difference(const std::vector<Round>& one, const std::vector<Round>& other) {
  const auto same_edit = [](const dllm_edit& a, const dllm_edit& b) {
    const bool remask = a.kind == DLLM_EDIT_REMASK;
    return a.position == b.position && a.kind == b.kind && (remask || a.token == b.token) &&
           std::bit_cast<std::uint32_t>(a.confidence) == std::bit_cast<std::uint32_t>(b.confidence);
  };
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    if (one[i].asked != other[i].asked) {
      return fmt::format("round {}: asked for positions {}, the other time for {}", i,
                         fmt::join(one[i].asked, " "), fmt::join(other[i].asked, " "));
    }
    if (!std::ranges::equal(one[i].edits, other[i].edits, same_edit)) {
      return fmt::format("round {}: the edits differ ({} and {} of them)", i, one[i].edits.size(),
                         other[i].edits.size());
    }
  }
  if (one.size() == other.size()) return {};
  return fmt::format("ends after {} rounds, the other time after {}", one.size(), other.size());
}

Rehearsal::Rehearsal(const Sampler& sampler, const Scene& scene)
    : id_(sampler.id()),
      takes_logits_(sampler.takes_logits()),
      scene_(scene),
      canvas_(scene.ids, scene.editable, scene.facts),
      run_(as_rule("calls", [&] { return sampler.start(shown(), scene.seed); })) {
  require_untouched("start");
}

Rehearsal::CanvasCopy Rehearsal::canvas_copy() const {
  const dllm_canvas canvas = canvas_.view();
  const std::uint32_t n = canvas.n_positions;
  return {{canvas.ids, canvas.ids + n},
          {canvas.state, canvas.state + n},
          {canvas.editable, canvas.editable + n},
          {canvas.block_starts, canvas.block_starts + canvas.n_block_starts}};
}

dllm_canvas Rehearsal::shown() {
  before_ = canvas_copy();
  return canvas_.view();
}

void Rehearsal::require_untouched(const char* call) const {
  if (canvas_copy() == before_) return;
  throw Broken("reads_only", fmt::format("{}() wrote into the canvas it was given", call));
}

void Rehearsal::plan() {
  plan_ = as_rule("calls", [&] { return run_.plan(shown()); });
  require_untouched("plan");
  as_rule("plans", [&] { check_plan(plan_, canvas_.view(), scene_.facts.n_vocab, id_); });
}

void Rehearsal::give_logits(std::uint64_t hash) {
  sdk::RawRows rows(plan_, scene_.facts.n_vocab,
                    [&](std::uint32_t at) { return canned_row(scene_.facts, hash, at); });
  if (damage_logits) damage_logits(rows);
  const std::vector<float> before = rows.values;
  as_rule("calls", [&] { run_.take_logits(shown(), rows.view()); });
  require_untouched("take");
  if (!same_bytes(before, rows.values)) {
    throw Broken("reads_only", "take() wrote into the logits it was given");
  }
}

void Rehearsal::apply() {
  const std::uint64_t hash = canvas_hash(canvas_.ids(), scene_.seed);
  sdk::Answers answers = sdk::answer_plan(
      plan_, scene_.facts, scene_.seed, canvas_.step(),
      [&](std::uint32_t at) { return canned_row(scene_.facts, hash, at); }, scene_.extra_columns);
  if (damage) damage(answers);
  if (takes_logits_ && !answers.positions.empty()) give_logits(hash);
  const sdk::Answers before = answers;
  const dllm_stats stats = answers.view();
  Round round{answers.positions, {}};
  edits_ = as_rule("calls", [&] { return run_.apply(shown(), stats); });
  require_untouched("apply");
  if (const char* name = changed_array(before, answers)) {
    throw Broken("reads_only", fmt::format("apply() wrote into '{}' of the statistics", name));
  }
  round.edits.assign(edits_.edits, edits_.edits + edits_.n_edits);
  as_rule("edits", [&] { canvas_.apply(round.edits, id_); });
  canvas_.advance();
  forwards_ += round.asked.empty() ? 0 : 1;
  finished_ = edits_.status == DLLM_RUN_FINISHED;
  transcript_.push_back(std::move(round));
}

void Rehearsal::play() {
  const std::uint32_t budget = round_budget(canvas_.size());
  while (!finished_) {
    if (transcript_.size() >= budget) {
      throw Broken("progress",
                   fmt::format("no end after {} rounds, {} of {} positions still masked", budget,
                               canvas_.n_masked(), canvas_.size()));
    }
    round();
  }
}

}  // namespace dllm::cli

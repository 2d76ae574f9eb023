// A sampler on canned statistics, round by round, under the engine's own checks.
//
//   Rehearsal play(sampler, scene);
//   while (!play.finished()) play.round();
//   play.transcript() == other.transcript();
//
// Rows are made up from the seed, the canvas and the position (canned_row). A fault is a Broken
// that names the rule. Thread rule: one thread each; several may share a sampler.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "dllm/canvas.hpp"
#include "dllm/sampler.hpp"
#include "dllm_sdk/row_statistics.hpp"

namespace dllm::cli {

/// A rule that was broken, by its id, and how.
class Broken : public std::runtime_error {
 public:
  Broken(std::string rule_id, const std::string& how)
      : std::runtime_error(how), rule(std::move(rule_id)) {}
  std::string rule;
};

/// What is played.
struct Scene {
  dllm_model_facts facts{};
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> editable;
  std::uint64_t seed = 7;
  std::uint32_t extra_columns = 0;  ///< of the answers' tables, more than asked for
};

/// `given` positions, then `masked` ones, of a vocabulary of a thousand; blocks of eight.
Scene plain_scene(std::uint32_t given = 6, std::uint32_t masked = 24);
/// Masked positions in five places; between them given ones, committed ones that may be edited, and
/// mask tokens that were given.
Scene scattered_scene();

std::uint64_t canvas_hash(std::span<const std::int32_t> ids, std::uint64_t seed);
/// The finite logits of one row: a dozen tokens, differing from row to row and canvas to canvas.
sdk::LogitRow canned_row(const dllm_model_facts& facts, std::uint64_t canvas,
                         std::uint32_t position);

/// A plan with its lists copied: to compare, and to keep beyond the next call.
struct PlanCopy {
  explicit PlanCopy(const dllm_plan& plan);
  bool operator==(const PlanCopy&) const = default;

  std::vector<std::uint32_t> positions, counts;
  std::vector<float> numbers;
  std::vector<std::int32_t> suppress_both, suppress_confidence, prob_of;
};

struct Round {
  std::vector<std::uint32_t> asked;
  std::vector<dllm_edit> edits;
};

/// "round 3: asks for 2 positions, then 1" for the first difference, or empty.
std::string first_difference(const std::vector<Round>& one, const std::vector<Round>& other);

class Rehearsal {
 public:
  /// `sampler` and `scene` must outlive this. Throws Error (bad_usage) where the sampler refuses
  /// the canvas.
  Rehearsal(const Sampler& sampler, const Scene& scene);

  bool finished() const { return finished_; }
  void plan();   ///< asks for a plan and checks it
  void apply();  ///< answers it and writes the edits
  void round() {
    plan();
    apply();
  }
  /// To the end. Throws Broken("progress") when that is beyond the engine's budget.
  void play();

  Canvas& canvas() { return canvas_; }
  const dllm_plan& last_plan() const { return plan_; }
  const dllm_edits& last_edits() const { return edits_; }
  const std::vector<Round>& transcript() const { return transcript_; }
  std::uint32_t forwards() const { return forwards_; }

  /// Called on every answer before the sampler sees it.
  std::function<void(sdk::Answers&)> damage;
  std::function<void(sdk::RawRows&)> damage_logits;

 private:
  /// The canvas as the plugin gets it, copied: to see whether it writes there.
  struct CanvasCopy {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> state, editable;
    std::vector<std::uint32_t> block_starts;
    bool operator==(const CanvasCopy&) const = default;
  };
  CanvasCopy canvas_copy() const;
  void require_untouched(const char* call) const;
  dllm_canvas shown();

  void give_logits(std::uint64_t hash);

  const std::string& id_;
  bool takes_logits_;
  const Scene& scene_;
  Canvas canvas_;
  CanvasCopy before_;  // the call under way: what it was given
  SamplerRun run_;
  dllm_plan plan_{};
  dllm_edits edits_{};
  std::vector<Round> transcript_;
  std::uint32_t forwards_ = 0;
  bool finished_ = false;
};

}  // namespace dllm::cli

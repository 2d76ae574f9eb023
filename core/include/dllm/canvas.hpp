// The canvas of one sequence: ids and a state per position, changed by checked edits alone.
//
//   Canvas canvas(ids, editable, facts);
//   canvas.apply(edits, "llada");          // all or none; throws what the sampler did wrong
//   run.plan(canvas.view());
//
// The engine keeps one for each sequence; whoever plays a sampler without an engine uses the same.
// Thread rule: a value, one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dllm_sdk/sampler_abi.h"

namespace dllm {

class Canvas {
 public:
  /// `ids` and `editable` are of one length. Editable positions (not 0) that hold the mask id are
  /// masked, other editable ones committed, the rest fixed. Where `facts` name a trained block
  /// length, blocks start at its multiples.
  Canvas(std::vector<std::int32_t> ids, std::vector<std::uint8_t> editable,
         const dllm_model_facts& facts);

  /// As the sampler sees it; valid until the canvas changes.
  dllm_canvas view() const;

  std::uint32_t size() const { return static_cast<std::uint32_t>(ids_.size()); }
  std::span<const std::int32_t> ids() const { return ids_; }
  std::span<const std::uint8_t> state() const { return state_; }
  std::uint32_t n_masked() const { return n_masked_; }
  std::uint32_t step() const { return step_; }
  void advance() { ++step_; }

  /// Checks every edit, then writes all or none. Throws Error (bad_plugin) naming `sampler`, the
  /// position and what it may not do.
  void apply(std::span<const dllm_edit> edits, const std::string& sampler);

  /// A change that is not the sampler's: masked where `token` is the mask id, else committed. The
  /// position must be editable.
  void overwrite(std::uint32_t position, std::int32_t token);

  /// True when an end token stands in an editable position, is final, and so is all before it.
  bool reached_stop(std::span<const std::int32_t> stop_ids) const;

 private:
  void check(const dllm_edit& edit, const std::string& sampler) const;

  std::vector<std::int32_t> ids_;
  std::vector<std::uint8_t> state_;
  std::vector<std::uint8_t> editable_;
  std::vector<std::uint32_t> block_starts_;
  std::vector<std::uint32_t> edited_at_;  // round (counted from 1) of the last edit, for duplicates
  std::int32_t mask_id_;
  std::uint32_t n_tokens_;
  std::uint32_t n_masked_ = 0;
  std::uint32_t step_ = 0;
};

}  // namespace dllm

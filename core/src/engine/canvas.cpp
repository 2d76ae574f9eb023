#include "dllm/canvas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "dllm/error.hpp"

namespace dllm {
namespace {

bool is_filled(std::uint8_t state) {
  return state == DLLM_POSITION_COMMITTED || state == DLLM_POSITION_REVOCABLE;
}

[[noreturn]] void refuse(const dllm_edit& edit, const std::string& sampler, std::string_view why) {
  throw Error(ErrorCode::bad_plugin, fmt::format("edit of position {}: {}", edit.position, why),
              fmt::format("sampler {}", sampler), "report it to the author of the sampler");
}

}  // namespace

Canvas::Canvas(std::vector<std::int32_t> ids, std::vector<std::uint8_t> editable,
               const dllm_model_facts& facts)
    : ids_(std::move(ids)),
      state_(ids_.size(), DLLM_POSITION_FIXED),
      editable_(std::move(editable)),
      edited_at_(ids_.size(), 0),
      mask_id_(facts.mask_id),
      n_tokens_(facts.n_tokens) {
  DLLM_ASSERT(editable_.size() == ids_.size());
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (editable_[i] == 0) continue;
    const bool masked = ids_[i] == mask_id_;
    state_[i] = masked ? DLLM_POSITION_MASKED : DLLM_POSITION_COMMITTED;
    n_masked_ += masked ? 1 : 0;
  }
  if (facts.trained_block_length > 0) {
    for (std::uint32_t start = 0; start < size(); start += facts.trained_block_length) {
      block_starts_.push_back(start);
    }
  }
}

dllm_canvas Canvas::view() const {
  dllm_canvas canvas{};
  canvas.struct_size = sizeof canvas;
  canvas.n_positions = size();
  canvas.ids = ids_.data();
  canvas.state = state_.data();
  canvas.editable = editable_.data();
  canvas.block_starts = block_starts_.data();
  canvas.n_block_starts = static_cast<std::uint32_t>(block_starts_.size());
  canvas.step = step_;
  return canvas;
}

void Canvas::check(const dllm_edit& edit, const std::string& sampler) const {
  if (edit.position >= size()) {
    refuse(edit, sampler, fmt::format("the canvas has {} positions", size()));
  }
  const std::uint8_t state = state_[edit.position];
  if (editable_[edit.position] == 0) refuse(edit, sampler, "the position is fixed");
  switch (edit.kind) {
    case DLLM_EDIT_COMMIT:
    case DLLM_EDIT_COMMIT_REVOCABLE:
      if (state != DLLM_POSITION_MASKED) refuse(edit, sampler, "commit needs a masked position");
      break;
    case DLLM_EDIT_REPLACE:
      if (!is_filled(state)) refuse(edit, sampler, "replace needs a filled position");
      break;
    case DLLM_EDIT_REMASK:
      if (!is_filled(state)) refuse(edit, sampler, "remask needs a filled position");
      return;
    default:
      refuse(edit, sampler, fmt::format("unknown kind {}", edit.kind));
  }
  if (edit.token == mask_id_) {
    refuse(edit, sampler,
           fmt::format("token {} is the mask; only a remask may write it", mask_id_));
  }
  if (edit.token < 0 || static_cast<std::uint32_t>(edit.token) >= n_tokens_) {
    refuse(edit, sampler,
           fmt::format("token {} is outside the vocabulary of {}", edit.token, n_tokens_));
  }
}

void Canvas::apply(std::span<const dllm_edit> edits, const std::string& sampler) {
  const std::uint32_t round = step_ + 1;
  for (const dllm_edit& edit : edits) {
    check(edit, sampler);
    if (edited_at_[edit.position] == round) refuse(edit, sampler, "it is edited twice in one step");
    edited_at_[edit.position] = round;
  }
  for (const dllm_edit& edit : edits) {
    std::uint8_t& state = state_[edit.position];
    const bool was_masked = state == DLLM_POSITION_MASKED;
    const bool remask = edit.kind == DLLM_EDIT_REMASK;
    ids_[edit.position] = remask ? mask_id_ : edit.token;
    if (remask) {
      state = DLLM_POSITION_MASKED;
    } else if (edit.kind == DLLM_EDIT_COMMIT_REVOCABLE) {
      state = DLLM_POSITION_REVOCABLE;
    } else if (edit.kind == DLLM_EDIT_COMMIT) {
      state = DLLM_POSITION_COMMITTED;
    }
    n_masked_ += (remask ? 1 : 0) - (was_masked ? 1 : 0);
  }
}

void Canvas::overwrite(std::uint32_t position, std::int32_t token) {
  DLLM_ASSERT(position < size() && editable_[position] != 0);
  std::uint8_t& state = state_[position];
  n_masked_ -= state == DLLM_POSITION_MASKED ? 1 : 0;
  ids_[position] = token;
  state = token == mask_id_ ? DLLM_POSITION_MASKED : DLLM_POSITION_COMMITTED;
  n_masked_ += state == DLLM_POSITION_MASKED ? 1 : 0;
}

bool Canvas::reached_stop(std::span<const std::int32_t> stop_ids) const {
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (state_[i] == DLLM_POSITION_MASKED || state_[i] == DLLM_POSITION_REVOCABLE) return false;
    if (editable_[i] != 0 && std::ranges::find(stop_ids, ids_[i]) != stop_ids.end()) return true;
  }
  return false;
}

}  // namespace dllm

#include "waiting_sums.hpp"

#include <algorithm>

#include "dllm/error.hpp"

namespace dllm::cuda {

void WaitingSums::begin_step() {
  abandon_step();
  in_step_ = true;
}

void WaitingSums::end_step() {
  settle_all();
  in_step_ = false;
}

void WaitingSums::abandon_step() noexcept {
  in_step_ = false;
  waiting_.clear();
}

void WaitingSums::add(std::span<const SummedRows> all, bool may_wait) {
  DLLM_ASSERT(waiting_.empty());
  for (const SummedRows& each : all)
    if (each.sums.n > 0) waiting_.push_back(each);
  if (!in_step_ || !may_wait) settle_all();
}

Sums WaitingSums::take(const Rows& rows, bool may_add) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const SummedRows& each) {
    return each.rows.values == rows.values && each.rows.n_rows == rows.n_rows &&
           (may_add || !each.sums.adds);
  });
  if (found == waiting_.end()) {
    settle(rows.values);
    return {};
  }
  const Sums sums = found->sums;
  waiting_.erase(found);
  return sums;
}

void WaitingSums::settle(const float* rows) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const SummedRows& each) { return each.rows.values == rows; });
  if (found == waiting_.end()) return;
  const SummedRows now = *found;
  waiting_.erase(found);
  add_now_({&now, 1});
}

void WaitingSums::settle_all() {
  if (waiting_.empty()) return;
  const std::vector<SummedRows> now = std::move(waiting_);
  waiting_.clear();
  add_now_(now);
}

void WaitingSums::overwritten(const Rows& rows) {
  std::erase_if(waiting_, [&](const SummedRows& each) {
    return each.rows.values == rows.values && each.rows.n_rows <= rows.n_rows;
  });
  settle(rows.values);
}

}  // namespace dllm::cuda

// Sums of split products that wait for whoever reads the rows they belong to.
//
// The parts of a product whose inputs are split are left in memory by different blocks. A kernel
// that adds them would take longer than their next reader does it on its way (a norm, the heads of
// attention), so inside a step a product only notes them. The reader takes the note (take); any
// other operation that reads such rows has them added first (settle), one that writes them anew
// makes the note void (overwritten). The parts of one call at a time: they lie where those of the
// next will, and their row scales where the next input's will, so settle_all() comes before both.
// Outside a step, where buffers may be given back between operations, nothing waits.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "device_rows.hpp"

namespace dllm::cuda {

class WaitingSums {
 public:
  /// Has the sums of equally many rows added, all of one call.
  using AddNow = std::function<void(std::span<const SummedRows>)>;
  explicit WaitingSums(AddNow add_now) : add_now_(std::move(add_now)) {}

  void begin_step();
  /// Adds what still waits.
  void end_step();
  /// Forgets everything, after an error.
  void abandon_step() noexcept;

  /// Of one call, after settle_all(). Those with nothing to add are left out. `may_wait`: whether
  /// the rows are read through this class alone.
  void add(std::span<const SummedRows> all, bool may_wait);
  /// What waits for these rows; the caller adds it. take_new(): where it replaces what they hold.
  Sums take(const Rows& rows) { return take(rows, true); }
  Sums take_new(const Rows& rows) { return take(rows, false); }
  void settle(const float* rows);
  void settle_all();
  void overwritten(const Rows& rows);

 private:
  Sums take(const Rows& rows, bool may_add);

  bool in_step_ = false;
  std::vector<SummedRows> waiting_;
  AddNow add_now_;
};

}  // namespace dllm::cuda

// The threads of one backend: an oneTBB arena of a fixed size.
//
//   arena.for_each(n_tiles, 1, [&](std::uint32_t tile, unsigned slot) { ... });
//
// Every region is cut into many small items that idle threads steal, so the fast cores of a mixed
// machine take more; nothing is split by thread number. Items write disjoint results, so neither
// the order nor the thread count shows in them.
#pragma once

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <cstdint>
#include <optional>

#include "dllm/profile.hpp"

namespace dllm::cpu {

class Arena {
 public:
  explicit Arena(unsigned n_threads) : n_threads_(n_threads), arena_(static_cast<int>(n_threads)) {
    // oneTBB caps a process at the processor count; more threads than that must be asked for.
    if (static_cast<int>(n_threads) > tbb::info::default_concurrency())
      more_.emplace(tbb::global_control::max_allowed_parallelism, n_threads);
    arena_.initialize();
  }

  unsigned n_threads() const noexcept { return n_threads_; }
  void set_profile(ProfileSink* sink) noexcept {
    work_ = sink && sink->wants_work() ? sink : nullptr;
  }

  /// Calls body(item, slot) for every item below n_items; `slot` < n_threads() is owned by the
  /// calling thread for the duration of the call. Items are handed out `grain` at a time: choose it
  /// so that one hand-out (about a microsecond) does not count.
  template <typename Body>
  void for_each(std::uint32_t n_items, std::uint32_t grain, const Body& body) {
    if (n_items == 0) return;
    arena_.execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<std::uint32_t>(0, n_items, grain),
          [&](const tbb::blocked_range<std::uint32_t>& range) {
            const auto slot = static_cast<unsigned>(tbb::this_task_arena::current_thread_index());
            const std::int64_t begin_ns = work_ ? profile_now_ns() : 0;
            for (std::uint32_t item = range.begin(); item != range.end(); ++item) body(item, slot);
            if (work_)
              work_->work(
                  {slot, range.begin(), range.end() - range.begin(), begin_ns, profile_now_ns()});
          },
          tbb::simple_partitioner());
    });
  }

 private:
  unsigned n_threads_;
  ProfileSink* work_ = nullptr;
  std::optional<tbb::global_control> more_;
  tbb::task_arena arena_;
};

}  // namespace dllm::cpu

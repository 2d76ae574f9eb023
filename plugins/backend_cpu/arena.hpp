// The threads of one backend: an oneTBB arena of a fixed size.
//
//   arena.for_each(n_tiles, 1, [&](std::uint32_t tile, unsigned slot) { ... });
//
// Every region is cut into many small items that idle threads steal, so the fast cores of a mixed
// machine take more; nothing is split by thread number and no thread is pinned. Items write
// disjoint results, so neither the order nor the thread count shows in them.
//
// oneTBB's threads belong to the whole process. An arena borrows some while a region runs and
// changes nothing else: no global_control, so a host application's own limits and arenas stay as
// they are, and an arena never gets more threads than the host's limit (max_threads()) allows.
#pragma once

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "dllm/profile.hpp"

namespace dllm::cpu {

class Arena {
 public:
  /// `n_threads` at most max_threads(); more would never come. Starts them.
  explicit Arena(unsigned n_threads) : n_threads_(n_threads), arena_(static_cast<int>(n_threads)) {
    arena_.initialize();
    gather();
  }

  /// Threads that oneTBB lets work at once in this process: the processors of its affinity mask,
  /// or what the host application has set.
  static unsigned max_threads() {
    return static_cast<unsigned>(
        tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  }

  unsigned n_threads() const noexcept { return n_threads_; }
  void set_profile(ProfileSink* sink) noexcept {
    work_ = sink && sink->wants_work() ? sink : nullptr;
  }

  /// Calls body(item, slot) for every item below n_items; `slot` < n_threads() is owned by the
  /// calling thread for the duration of the call. Items are handed out `grain` at a time: choose it
  /// so that a hand-out (tens of nanoseconds: docs/performance.md) does not count.
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
  // oneTBB starts threads when work first needs them, from each other, where a refusal ends the
  // program. So all of them are made to come once, right after require_threads() has asked the
  // system, before anything else takes memory. They stay. Where the host keeps them busy this
  // gives up after a while.
  void gather() {
    if (n_threads_ < 2) return;
    constexpr std::int64_t kPatienceNs = 100'000'000;
    const std::int64_t end_ns = profile_now_ns() + kPatienceNs;
    std::atomic<unsigned> here{0};
    for_each(n_threads_, 1, [&](std::uint32_t, unsigned) {
      here.fetch_add(1);
      while (here.load() < n_threads_ && profile_now_ns() < end_ns) std::this_thread::yield();
    });
  }

  unsigned n_threads_;
  ProfileSink* work_ = nullptr;
  tbb::task_arena arena_;
};

}  // namespace dllm::cpu

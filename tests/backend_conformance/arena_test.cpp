// The threads of the CPU backend: idle ones take a slow one's items, a host application's oneTBB
// is left alone. No test looks at a clock but to give up.
#include "arena.hpp"

#include <gtest/gtest.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>

#include <chrono>
#include <vector>

namespace dllm::cpu {
namespace {

// Waits for `done`, a minute at most: a test that is wrong must end.
template <typename Condition>
bool wait_for(const Condition& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return done();
}

// Lets this process use up to `n` threads, as a host application may, whatever the machine has.
class HostLimit {
 public:
  explicit HostLimit(unsigned n) : control_(tbb::global_control::max_allowed_parallelism, n) {}

 private:
  tbb::global_control control_;
};

struct Shares {
  std::uint32_t slow = 0;    // items of the slowed worker
  std::uint32_t others = 0;  // of everyone else
};

// One worker is so slow that it finishes its first item when everyone else is done with all others.
// The caller's thread does not begin before the slow one has, or that might come to nothing.
Shares run_with_a_slow_worker(Arena& arena, std::uint32_t n_items) {
  constexpr unsigned kNobody = ~0u;
  std::atomic<unsigned> slow_slot{kNobody};
  std::atomic<std::uint32_t> slow_items{0};
  std::atomic<std::uint32_t> other_items{0};
  const std::thread::id caller = std::this_thread::get_id();
  arena.for_each(n_items, 1, [&](std::uint32_t, unsigned slot) {
    if (std::this_thread::get_id() == caller) {
      EXPECT_TRUE(wait_for([&] { return slow_slot.load() != kNobody; })) << "no worker came";
    } else {
      unsigned nobody = kNobody;
      slow_slot.compare_exchange_strong(nobody, slot);
    }
    if (slot != slow_slot.load()) {
      ++other_items;
    } else if (++slow_items == 1) {
      EXPECT_TRUE(wait_for([&] { return other_items.load() == n_items - 1; }))
          << "nobody took the slow worker's items: " << other_items.load() << " of " << n_items;
    }
  });
  return {slow_items.load(), other_items.load()};
}

TEST(Arena, TheOthersTakeAllItemsOfASlowWorkerButTheOneItHolds) {
  const HostLimit limit(4);
  for (const unsigned threads : {2u, 4u}) {
    Arena arena(threads);
    for (const std::uint32_t n_items : {2u, 17u, 400u}) {
      const Shares shares = run_with_a_slow_worker(arena, n_items);
      EXPECT_EQ(shares.slow, 1u) << threads << " threads, " << n_items << " items";
      EXPECT_EQ(shares.others, n_items - 1);
    }
  }
}

TEST(Arena, EveryItemIsDoneOnceByASlotInRange) {
  const HostLimit limit(8);
  for (const unsigned threads : {1u, 3u, 8u}) {
    Arena arena(threads);
    std::vector<std::atomic<int>> times(1000);
    arena.for_each(1000, 7, [&](std::uint32_t item, unsigned slot) {
      EXPECT_LT(slot, threads);
      ++times[item];
    });
    for (const auto& each : times) EXPECT_EQ(each.load(), 1);
  }
}

TEST(Arena, AllItsThreadsHaveStartedWhenItIsMade) {
  const HostLimit limit(5);
  Arena arena(5);
  std::atomic<unsigned> here{0};
  arena.for_each(5, 1, [&](std::uint32_t, unsigned) {
    ++here;
    EXPECT_TRUE(wait_for([&] { return here.load() == 5; })) << here.load() << " of 5 came";
  });
  EXPECT_EQ(here.load(), 5u);
}

// What a host application sees of its own oneTBB.
struct HostView {
  std::size_t parallelism;
  std::size_t stack;
  int arena_size;
  int default_concurrency;
  bool operator==(const HostView&) const = default;
};

HostView host_view(tbb::task_arena& hosts) {
  using Control = tbb::global_control;
  return {Control::active_value(Control::max_allowed_parallelism),
          Control::active_value(Control::thread_stack_size), hosts.max_concurrency(),
          tbb::info::default_concurrency()};
}

TEST(Arena, AHostApplicationsOneTbbIsTheSameBeforeDuringAndAfter) {
  tbb::task_arena hosts;
  hosts.initialize();
  const HostView before = host_view(hosts);
  {
    Arena small(1);
    Arena large(Arena::max_threads());
    large.for_each(100, 1, [](std::uint32_t, unsigned) {});
    EXPECT_EQ(host_view(hosts), before);
  }
  EXPECT_EQ(host_view(hosts), before);
  std::atomic<int> sum{0};
  hosts.execute([&] { tbb::parallel_for(0, 100, [&](int i) { sum += i; }); });
  EXPECT_EQ(sum.load(), 4950);
}

TEST(Arena, AHostsLimitIsKept) {
  const HostLimit limit(1);
  EXPECT_EQ(Arena::max_threads(), 1u);
  Arena arena(1);
  std::atomic<int> done{0};
  arena.for_each(10, 1, [&](std::uint32_t, unsigned slot) {
    EXPECT_EQ(slot, 0u);
    ++done;
  });
  EXPECT_EQ(done.load(), 10);
}

TEST(Arena, WorksInsideAHostsOwnParallelLoop) {
  const HostLimit limit(4);
  Arena arena(2);
  std::atomic<int> done{0};
  tbb::task_arena hosts(2);
  hosts.execute([&] {
    EXPECT_LT(tbb::this_task_arena::current_thread_index(), 2);
    arena.for_each(50, 1, [&](std::uint32_t, unsigned) { ++done; });
  });
  EXPECT_EQ(done.load(), 50);
}

}  // namespace
}  // namespace dllm::cpu

// Leaks, seen from outside: memory in use after many samplers and runs that ended at every point.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>

#include "check/rules.hpp"

namespace dllm::cli::checks {
namespace {

// 0 where a sanitizer owns the allocator; it finds leaks by itself.
std::size_t bytes_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

void one_cycle(const Subject& subject, const Scene& scene) {
  const auto sampler = subject.make(scene.facts);
  {
    Rehearsal started(*sampler, scene);
  }
  {
    Rehearsal planned(*sampler, scene);
    planned.plan();
  }
  {
    Rehearsal half_way(*sampler, scene);
    half_way.round();
    half_way.plan();
  }
  Rehearsal whole(*sampler, scene);
  whole.play();
}

}  // namespace

void frees_all(const Subject& subject) {
  constexpr int kWindows = 5;
  constexpr std::size_t kCycles = 50;
  constexpr std::size_t kSmallestLeak = 8;  // bytes a cycle
  const Scene scene = plain_scene(2, 6);
  for (std::size_t i = 0; i < kCycles; ++i) one_cycle(subject, scene);
  // A leak grows in every window; the allocator's own bookkeeping settles.
  std::size_t smallest = SIZE_MAX;
  for (int window = 0; window < kWindows; ++window) {
    const std::size_t before = bytes_in_use();
    for (std::size_t i = 0; i < kCycles; ++i) one_cycle(subject, scene);
    const std::size_t after = bytes_in_use();
    smallest = std::min(smallest, after > before ? after - before : 0);
  }
  if (smallest < kCycles * kSmallestLeak) return;
  throw Broken("frees_all", fmt::format("{} samplers and {} runs leave {} bytes", kCycles,
                                        4 * kCycles, smallest));
}

}  // namespace dllm::cli::checks

// What this process may use of the machine: processors and memory, cgroup limits included.
//
//   unsigned n = usable_threads({});          // affinity mask, cgroup quota, physical cores
//   MemoryFacts m = memory_facts({});
#pragma once

#include <cstdint>
#include <string>

namespace dllm::cpu {

/// Where the kernel's files are; tests point these at made-up trees.
struct SystemPaths {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

/// Throws Error (resource) unless the system lets this process have `n_more` threads beside those
/// it has. oneTBB starts its workers late and from each other, where a refusal ends the program.
void require_threads(unsigned n_more);

/// Physical cores among the processors of the affinity mask, but no more than the tightest cgroup
/// cpu quota (v1 and v2) allows, rounded up. At least 1.
unsigned usable_threads(const SystemPaths& paths);

/// The quota part alone: processors' worth of time the cgroups allow, 0 where unlimited.
double cgroup_cpu_quota(const SystemPaths& paths);

struct MemoryFacts {
  std::uint64_t total_bytes = 0;
  /// MemAvailable, or what the tightest cgroup leaves (its limit minus use, reclaimable file pages
  /// counted as free), whichever is less.
  std::uint64_t available_bytes = 0;
};
MemoryFacts memory_facts(const SystemPaths& paths);

/// "AMD EPYC", from /proc/cpuinfo; "CPU" where unknown.
std::string processor_name(const SystemPaths& paths);

}  // namespace dllm::cpu

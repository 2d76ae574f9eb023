#include "machine.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <latch>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include "dllm/error.hpp"

namespace dllm::cpu {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto line = first_line(path);
  if (!line) return std::nullopt;
  std::uint64_t value = 0;
  std::istringstream in(*line);
  if (!(in >> value)) return std::nullopt;  // "max"
  return value;
}

// The value of `key` in a file of "key value" or "key: value" lines.
std::optional<std::uint64_t> field_in(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t value = 0;
    if (words >> word >> value && word == key) return value;
  }
  return std::nullopt;
}

// Whether `word` is one of a comma-separated list, or the list itself.
bool has_word(const std::string& list, const std::string& word) {
  if (list == word) return true;
  std::istringstream in(list);
  std::string each;
  while (std::getline(in, each, ','))
    if (each == word) return true;
  return false;
}

// This process's group and its parents, innermost first, as folders of `controller`'s hierarchy
// (empty: v2). A container often sees its own group as the root, so the root is always tried.
std::vector<std::string> cgroup_folders(const SystemPaths& paths, const std::string& controller) {
  std::string group;
  std::ifstream in(paths.proc + "/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {  // "id:controller,controller:/path"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool ours = controller.empty() ? names.empty() : has_word(names, controller);
    if (ours) group = line.substr(second + 1);
  }
  const std::string root = paths.sys + "/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::vector<std::string> folders;
  while (group.size() > 1) {
    folders.push_back(root + group);
    group.erase(group.rfind('/'));
  }
  folders.push_back(root);
  return folders;
}

// Limit minus use of one memory group.
void lower_to(std::uint64_t& available, std::optional<std::uint64_t> limit,
              std::optional<std::uint64_t> used, std::uint64_t reclaimable) {
  if (!limit || !used) return;
  const std::uint64_t busy = *used - std::min(*used, reclaimable);
  available = std::min(available, *limit - std::min(*limit, busy));
}

std::uint64_t cgroup_available(const SystemPaths& paths) {
  std::uint64_t available = kUnlimited;
  for (const std::string& folder : cgroup_folders(paths, ""))
    lower_to(available, number_in(folder + "/memory.max"), number_in(folder + "/memory.current"),
             field_in(folder + "/memory.stat", "inactive_file").value_or(0));
  for (const std::string& folder : cgroup_folders(paths, "memory"))
    lower_to(available, number_in(folder + "/memory.limit_in_bytes"),
             number_in(folder + "/memory.usage_in_bytes"),
             field_in(folder + "/memory.stat", "total_inactive_file").value_or(0));
  return available;
}

// The processors of the affinity mask. The kernel's mask may be longer than cpu_set_t.
std::vector<unsigned> allowed_processors() {
  constexpr unsigned kMost = 1u << 16;
  for (unsigned n = CPU_SETSIZE; n <= kMost; n *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(n);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
        CPU_ALLOC(n), [](cpu_set_t* set) { CPU_FREE(set); });
    if (!mask || sched_getaffinity(0, bytes, mask.get()) != 0) continue;
    std::vector<unsigned> processors;
    for (unsigned cpu = 0; cpu < n; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, mask.get())) processors.push_back(cpu);
    return processors;
  }
  return {0};
}

// What the processors of one core have in common: the list of them, or package and core number.
// Without topology files every processor counts as a core of its own.
std::string core_of(unsigned cpu, const SystemPaths& paths) {
  const std::string topology =
      paths.sys + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology";
  for (const char* list : {"/core_cpus_list", "/thread_siblings_list"})
    if (const auto siblings = first_line(topology + list); siblings && !siblings->empty())
      return *siblings;
  const auto core = number_in(topology + "/core_id");
  if (!core) return "processor " + std::to_string(cpu);
  const auto package = number_in(topology + "/physical_package_id");
  return "package " + std::to_string(package.value_or(0)) + " core " + std::to_string(*core);
}

// Slow and fast cores of a hybrid processor count alike: work stealing gives each what it can do,
// and two threads of one core share its arithmetic units.
unsigned physical_cores(const SystemPaths& paths) {
  std::set<std::string> cores;
  for (const unsigned cpu : allowed_processors()) cores.insert(core_of(cpu, paths));
  return static_cast<unsigned>(std::max<std::size_t>(cores.size(), 1));
}

}  // namespace

double cgroup_cpu_quota(const SystemPaths& paths) {
  double quota = 0;
  const auto tighten = [&](double allowed, double period) {
    if (allowed <= 0 || period <= 0) return;
    quota = quota == 0 ? allowed / period : std::min(quota, allowed / period);
  };
  for (const std::string& folder : cgroup_folders(paths, "")) {
    const auto line = first_line(folder + "/cpu.max");  // "max 100000" or "150000 100000"
    if (!line) continue;
    double allowed = 0;
    double period = 0;
    std::istringstream in(*line);
    if (in >> allowed >> period) tighten(allowed, period);
  }
  for (const char* controller : {"cpu", "cpu,cpuacct"})
    for (const std::string& folder : cgroup_folders(paths, controller)) {
      const auto allowed = number_in(folder + "/cpu.cfs_quota_us");  // -1: none
      const auto period = number_in(folder + "/cpu.cfs_period_us");
      if (allowed && period && *allowed < (1ull << 62))
        tighten(static_cast<double>(*allowed), static_cast<double>(*period));
    }
  return quota;
}

void require_threads(unsigned n_more) {
  std::latch all_started(1);
  std::vector<std::thread> threads;
  std::error_code refused;
  try {
    threads.reserve(n_more);
    while (threads.size() < n_more) threads.emplace_back([&] { all_started.wait(); });
  } catch (const std::system_error& error) {
    refused = error.code();
  }
  all_started.count_down();
  const std::size_t started = threads.size();
  for (std::thread& thread : threads) thread.join();
  if (!refused) return;
  throw Error(
      ErrorCode::resource,
      "the system starts " + std::to_string(started) + " more threads, " + std::to_string(n_more) +
          " are needed: " + refused.message(),
      "backend cpu, option threads",
      "use fewer threads (-t), or raise the limit (ulimit -u and -v, the container's pids)");
}

unsigned usable_threads(const SystemPaths& paths) {
  const unsigned cores = physical_cores(paths);
  const double quota = cgroup_cpu_quota(paths);
  if (quota <= 0) return cores;
  return std::max(1u, std::min(cores, static_cast<unsigned>(std::ceil(quota))));
}

MemoryFacts memory_facts(const SystemPaths& paths) {
  const std::string meminfo = paths.proc + "/meminfo";
  MemoryFacts facts;
  facts.total_bytes = field_in(meminfo, "MemTotal:").value_or(0) * 1024;
  // Where nothing is known nothing is refused.
  const auto available = field_in(meminfo, "MemAvailable:");
  facts.available_bytes = available ? *available * 1024 : kUnlimited;
  facts.available_bytes = std::min(facts.available_bytes, cgroup_available(paths));
  return facts;
}

std::string processor_name(const SystemPaths& paths) {
  std::ifstream in(paths.proc + "/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return std::string("CPU");
}

}  // namespace dllm::cpu

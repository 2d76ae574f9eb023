// Internals of backend_cpu that no operation shows: what the machine allows (from made-up /proc and
// /sys trees) and the error bounds that row_math.inl states.
#include "machine.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include "gguf_writer.hpp"
#include "isa.hpp"
#include "memory.hpp"

namespace dllm::cpu {
namespace {

class FakeMachine {
 public:
  FakeMachine& file(const std::string& path, const std::string& text) {
    const std::filesystem::path full = folder_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    test::write_file(full, text);
    return *this;
  }
  SystemPaths paths() const {
    return {(folder_.path() / "proc").string(), (folder_.path() / "sys").string()};
  }

 private:
  test::TemporaryDirectory folder_;
};

TEST(Machine, NoCgroupMeansNoQuotaAndMemAvailable) {
  FakeMachine machine;
  machine.file("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 5 kB\nMemAvailable:    400 kB\n");
  EXPECT_EQ(cgroup_cpu_quota(machine.paths()), 0);
  EXPECT_EQ(memory_facts(machine.paths()).total_bytes, 1000U * 1024);
  EXPECT_EQ(memory_facts(machine.paths()).available_bytes, 400U * 1024);
  EXPECT_GE(usable_threads(machine.paths()), 1U);
}

TEST(Machine, CgroupV2TakesTheTightestOfAllParents) {
  FakeMachine machine;
  machine.file("proc/self/cgroup", "0::/outer/inner\n")
      .file("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
      .file("sys/fs/cgroup/outer/cpu.max", "150000 100000\n")
      .file("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n")
      .file("sys/fs/cgroup/outer/memory.max", "50000000\n")
      .file("sys/fs/cgroup/outer/memory.current", "30000000\n")
      .file("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 10000000\n")
      .file("sys/fs/cgroup/outer/inner/memory.max", "max\n")
      .file("sys/fs/cgroup/outer/inner/memory.current", "30000000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(machine.paths()), 1.5);
  EXPECT_LE(usable_threads(machine.paths()), 2U);
  EXPECT_EQ(memory_facts(machine.paths()).available_bytes, 30000000U);
}

TEST(Machine, CgroupV1QuotaAndMemoryLimit) {
  FakeMachine machine;
  machine.file("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n")
      .file("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
      .file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n")
      .file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
      .file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7000000\n")
      .file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "6000000\n")
      .file("sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 500000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(machine.paths()), 0.5);
  EXPECT_EQ(usable_threads(machine.paths()), 1U);
  EXPECT_EQ(memory_facts(machine.paths()).available_bytes, 1500000U);
}

TEST(Machine, CgroupV1WithoutQuotaIsUnlimited) {
  FakeMachine machine;
  machine.file("proc/self/cgroup", "3:cpu,cpuacct:/\n")
      .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
      .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(machine.paths()), 0);
}

// The processors this test may use: made-up topologies speak of them.
std::vector<int> own_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) processors.push_back(cpu);
  return processors;
}

std::string topology_of(int cpu) {
  return "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
}

TEST(Machine, ThreadsOfOneCoreCountOnceAndEveryCoreOfAHybridProcessorCounts) {
  const std::vector<int> processors = own_processors();
  FakeMachine one_core;
  for (const int cpu : processors) one_core.file(topology_of(cpu) + "core_cpus_list", "0-99\n");
  EXPECT_EQ(usable_threads(one_core.paths()), 1U);

  // Older kernels have the list by another name, or numbers only; core numbers repeat by package.
  FakeMachine siblings;
  FakeMachine packages;
  for (const int cpu : processors) {
    siblings.file(topology_of(cpu) + "thread_siblings_list", std::to_string(cpu / 2) + "\n");
    packages.file(topology_of(cpu) + "core_id", "0\n")
        .file(topology_of(cpu) + "physical_package_id", std::to_string(cpu) + "\n");
  }
  std::set<int> pairs;
  for (const int cpu : processors) pairs.insert(cpu / 2);
  EXPECT_EQ(usable_threads(siblings.paths()), pairs.size());
  EXPECT_EQ(usable_threads(packages.paths()), processors.size());

  FakeMachine no_topology;
  EXPECT_EQ(usable_threads(no_topology.paths()), processors.size());
}

TEST(Memory, HugePagesAreCountedWhereTheyWereAskedFor) {
  FakeMachine machine;
  machine.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
      .file("proc/self/smaps",
            "7f0-7f8 rw-p 00000000 00:00 0\nSize: 8192 kB\nRss: 6144 kB\n"
            "AnonHugePages: 4096 kB\nVmFlags: rd wr mr mw me ac hg\n"
            "7f8-7fa r--p 00000000 fe:00 1  /lib/x.so\nSize: 100 kB\nRss: 100 kB\n"
            "AnonHugePages: 0 kB\nVmFlags: rd mr mw me\n"
            "7fa-7ff rw-p 00000000 00:00 0\nSize: 2048 kB\nRss: 2048 kB\n"
            "AnonHugePages: 2048 kB\nVmFlags: rd wr hg mr\n");
  const HugePageFacts facts = huge_page_facts(machine.paths().proc, machine.paths().sys);
  EXPECT_EQ(facts.granted, "madvise");
  EXPECT_EQ(facts.resident_bytes, (6144U + 2048) * 1024);
  EXPECT_EQ(facts.huge_bytes, (4096U + 2048) * 1024);
  const HugePageFacts none = huge_page_facts("/nowhere", "/nowhere");
  EXPECT_EQ(none.resident_bytes + none.huge_bytes, 0U);
  EXPECT_EQ(none.granted, "");
}

TEST(Memory, LargePiecesStartAtAHugePageAndGetThemWhereTheSystemGrantsThem) {
  constexpr std::uint64_t kHuge = 2U << 20;
  const std::uint64_t before = huge_page_facts("/proc", "/sys").resident_bytes;
  const AlignedMemory memory(16 * kHuge, "a test");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.as<char>()) % kHuge, 0U);
  for (std::uint64_t i = 0; i < memory.bytes(); i += 4096) memory.as<char>()[i] = 1;
  const HugePageFacts facts = huge_page_facts("/proc", "/sys");
  if (facts.granted.empty()) GTEST_SKIP() << "this system does not speak of huge pages";
  EXPECT_GE(facts.resident_bytes, before + 16 * kHuge);
  if (facts.granted == "never") {
    EXPECT_EQ(facts.huge_bytes, 0U);
  } else {  // the system may run out of them, but hardly of all
    EXPECT_GT(facts.huge_bytes, 0U);
  }
}

TEST(RowMath, ExponentialKeepsItsStatedErrorBound) {
  for (const Isa& isa : all_isas()) {
    if (!isa.usable) continue;
    double worst = 0;
    std::vector<float> x;
    for (float value = -87; value < 88; value += 0.00037F) x.push_back(value);
    std::vector<float> e = x;
    isa.kernels->rows.exponentials(e.data(), static_cast<std::uint32_t>(e.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(static_cast<double>(e[i]) - exact) / exact);
    }
    EXPECT_LT(worst, 2.5e-7) << isa.name;
    std::vector<float> edges = {-INFINITY, -1000, 0, NAN, 1000};
    isa.kernels->rows.exponentials(edges.data(), 5);
    EXPECT_EQ(edges[0], 0.0F);
    EXPECT_EQ(edges[1], 0.0F);
    EXPECT_EQ(edges[2], 1.0F);
    EXPECT_TRUE(std::isnan(edges[3]));
    EXPECT_GT(edges[4], 2e38F);
  }
}

TEST(RowMath, SiluIsAccurateToAMillionthAndHandlesBothEnds) {
  for (const Isa& isa : all_isas()) {
    if (!isa.usable) continue;
    std::vector<float> gate;
    for (float value = -80; value < 100; value += 0.013F) gate.push_back(value);
    const std::vector<float> up(gate.size(), 3);
    std::vector<float> out(gate.size());
    isa.kernels->rows.silu_multiply(gate.data(), up.data(), static_cast<std::uint32_t>(gate.size()),
                                    out.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = static_cast<double>(gate[i]);
      const double exact = 3 * g / (1 + std::exp(-g));
      ASSERT_NEAR(static_cast<double>(out[i]), exact, 1e-6 * std::abs(exact)) << g;
    }
    const std::vector<float> ends = {-INFINITY, -1e30F, 1e30F};
    isa.kernels->rows.silu_multiply(ends.data(), up.data(), 3, out.data());
    EXPECT_LE(std::abs(out[1]), 1e-7F);
    EXPECT_FLOAT_EQ(out[2], 3e30F);
  }
}

}  // namespace
}  // namespace dllm::cpu

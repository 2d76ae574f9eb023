// Internals of backend_cpu that no operation shows: what the machine allows (from made-up /proc and
// /sys trees) and the error bounds that row_math.inl states.
#include "machine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "gguf_writer.hpp"
#include "isa.hpp"

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

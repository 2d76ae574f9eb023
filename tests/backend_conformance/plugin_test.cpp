// The CPU plugin around its operations: options, instruction set by name, what an import refuses,
// what stays resident.
#include <fcntl.h>
#include <oneapi/tbb/global_control.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "conformance.hpp"
#include "error_of.hpp"

namespace dllm::test {
namespace {

// Sets an environment variable for a scope.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() { unsetenv(name_); }

 private:
  const char* name_;
};

OptionValues options(const std::map<std::string, std::string, std::less<>>& given) {
  return check_options(cpu_factory().options(), given, "backend cpu");
}

TEST(CpuPlugin, EveryMachineRunsThePortableSetAndTheProbeNamesTheFastest) {
  const std::vector<std::string> isas = usable_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), "portable");
  const BackendFactory::Probe probe = cpu_factory().probe();
  EXPECT_TRUE(probe.usable) << probe.reason;
  ASSERT_EQ(probe.devices.size(), 1U);
  EXPECT_EQ(probe.devices[0].isa, isas.back());
  EXPECT_GT(probe.devices[0].available_bytes, 0U);
  EXPECT_EQ(cpu_factory().preference(), 0);
}

TEST(CpuPlugin, DeviceSaysThreadsAndInstructionSet) {
  const auto backend = make_backend({"portable", "exact", 3});
  const DeviceInfo device = backend->device();
  EXPECT_EQ(device.backend, "cpu");
  EXPECT_EQ(device.isa, "portable");
  EXPECT_EQ(device.threads, 3U);
  EXPECT_NE(device.name.find("3 threads, portable, exact products"), std::string::npos)
      << device.name;
}

TEST(CpuPlugin, DeviceSaysWhichProductsAreUsed) {
  for (const std::string& isa : usable_isas()) {
    SCOPED_TRACE(isa);
    for (const std::string mode : {"f32", "exact", "fast"})
      EXPECT_TRUE(make_backend({isa, mode})->device().name.ends_with(", " + mode + " products"));
  }
}

TEST(CpuPlugin, EnvironmentForcesAnInstructionSetAndTheOptionWins) {
  const ScopedEnvironment forced("DLLM_CPU_ISA", "portable");
  EXPECT_EQ(cpu_factory().create(options({}), Log())->device().isa, "portable");
  const std::string best = usable_isas().back();
  EXPECT_EQ(cpu_factory().create(options({{"isa", best}}), Log())->device().isa, best);
}

TEST(CpuPlugin, ThePortableSetIsWarnedOfWhereTheProcessorHasABetterOne) {
  std::string warning;
  const Log log([&](LogLevel level, std::string_view, std::string_view message) {
    if (level == LogLevel::warning) warning += message;
  });
  const std::string best = usable_isas().back();
  cpu_factory().create(options({{"isa", best}}), log);
  EXPECT_EQ(warning, "");
  cpu_factory().create(options({{"isa", "portable"}}), log);
  EXPECT_EQ(warning.find("this processor has " + best) != std::string::npos, best != "portable")
      << warning;
}

TEST(CpuPlugin, AnUnknownInstructionSetIsRefusedWithTheChoices) {
  const ScopedEnvironment forced("DLLM_CPU_ISA", "mmx");
  const Error error = error_of([&] { cpu_factory().create(options({}), Log()); });
  EXPECT_EQ(error.code(), ErrorCode::bad_usage);
  EXPECT_NE(error.fact().find("mmx"), std::string::npos) << error.what();
  EXPECT_NE(error.where().find("DLLM_CPU_ISA"), std::string::npos) << error.what();
  EXPECT_NE(error.fix().find("portable"), std::string::npos) << error.what();
}

TEST(CpuPlugin, ZeroThreadsMeansAtLeastOne) {
  EXPECT_GE(cpu_factory().create(options({{"threads", "0"}}), Log())->device().threads, 1U);
}

TEST(CpuPlugin, MoreThreadsThanProcessorsCanUseAreCutWithAWarning) {
  std::string warning;
  const Log log([&](LogLevel level, std::string_view, std::string_view message) {
    if (level == LogLevel::warning) warning += message;
  });
  // The host application's limit, as oneTBB takes it: the least of those in force.
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 3);
  EXPECT_EQ(cpu_factory().create(options({{"threads", "1024"}}), log)->device().threads, 3U);
  EXPECT_NE(warning.find("1024 threads are asked for, 3 are used"), std::string::npos) << warning;
  warning.clear();
  EXPECT_EQ(cpu_factory().create(options({{"threads", "3"}}), log)->device().threads, 3U);
  EXPECT_EQ(warning, "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Ends by how the refusal reads: 0 as it should.
[[noreturn]] void create_with_little_memory_for_stacks() {
  const tbb::global_control eight(tbb::global_control::max_allowed_parallelism, 8);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{20} << 20);
  const rlimit limit{bytes, bytes};  // room for two stacks of 8 MiB, not for seven
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(3);
  try {
    cpu_factory().create(options({{"threads", "8"}}), Log());
  } catch (const Error& error) {
    const std::string text = error.what();
    std::_Exit(text.find("7 are needed") != std::string::npos &&
                       text.find("use fewer threads (-t)") != std::string::npos
                   ? 0
                   : 1);
  }
  std::_Exit(2);
}

TEST(CpuPluginDeathTest, ThreadsTheSystemRefusesAreAnErrorNotAnAbort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(create_with_little_memory_for_stacks(), testing::ExitedWithCode(0), "");
}
#endif

TEST(CpuPlugin, ImportRefusesATypeItCannotDecodeNamingTensorAndType) {
  GgufWriter writer;
  writer.add_zeros("blk.0.ffn_up.weight", DType::iq2_xxs, {256, 2});
  TemporaryDirectory folder;
  writer.write(folder.path() / "iq2.gguf");
  const auto file = GgufFile::open(folder.path() / "iq2.gguf");
  const auto backend = make_backend({"portable"});
  EXPECT_FALSE(backend->supports(Op::norm_linear, DType::iq2_xxs));
  EXPECT_TRUE(backend->supports(Op::norm_linear, DType::q4_k));
  const Error error =
      error_of([&] { backend->import_weight(file, file->tensors()[0], WeightRole::column_split); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_NE(std::string(error.what()).find("IQ2_XXS"), std::string::npos) << error.what();
  EXPECT_NE(error.where().find("blk.0.ffn_up.weight"), std::string::npos) << error.what();
}

TEST(CpuPlugin, SaysHowMuchOfItsMemoryLiesInHugePages) {
  std::string said;
  const Log log([&](LogLevel level, std::string_view, std::string_view message) {
    if (level == LogLevel::info) said += std::string(message) + "\n";
  });
  const auto backend = cpu_factory().create(options({{"threads", "1"}}), log);
  WeightFile file;
  file.add("matrix", DType::q8_0, 2048, 2048, 1);  // 4.25 MiB
  const auto matrix = file.import_to(*backend, "matrix");
  backend->reserve({.max_tokens = 1, .max_score_rows = 1, .max_sequences = 1, .max_cols = 64});
  EXPECT_NE(said.find("% of it in huge pages (transparent_hugepage: "), std::string::npos) << said;
  const auto report = backend->memory_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_GE(report->resident_bytes, 4U << 20);
  EXPECT_LE(report->huge_bytes, report->resident_bytes);
}

TEST(CpuPlugin, ABufferBeyondAllMemoryIsRefusedWithBothNumbers) {
  const auto backend = make_backend({"portable"});
  const Error error = error_of([&] { backend->make_buffer(1U << 31, 1U << 20); });
  EXPECT_EQ(error.code(), ErrorCode::resource);
  EXPECT_NE(error.fact().find("9007199254740992"), std::string::npos) << error.what();
  EXPECT_NE(error.fact().find("available"), std::string::npos) << error.what();
}

// Pages that this process's own page table holds (mincore would count the page cache).
std::uint64_t resident_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const int map = open("/proc/self/pagemap", O_RDONLY);
  std::uint64_t present = 0;
  const auto begin = (reinterpret_cast<std::uintptr_t>(bytes.data()) + page - 1) / page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page;
  for (std::uintptr_t each = begin; each < end; ++each) {
    std::uint64_t entry = 0;
    if (pread(map, &entry, sizeof entry, static_cast<off_t>(each * sizeof entry)) != sizeof entry)
      break;
    present += entry >> 63;
  }
  close(map);
  return present;
}

TEST(CpuPlugin, ImportedMatricesLeaveNoMappedPagesAndEmbeddingsStayMapped) {
  GgufWriter writer;
  writer.add_tensor("matrix", DType::q8_0, {1024, 600}, random_blocks(DType::q8_0, 600, 1024, 1));
  writer.add_zeros("table", DType::q8_0, {1024, 16000});  // 17 MB: looking up one row maps little
  TemporaryDirectory folder;
  writer.write(folder.path() / "weights.gguf");
  const auto file = GgufFile::open(folder.path() / "weights.gguf");
  const auto backend = make_backend({"portable"});
  const auto bytes = file->data(file->tensor("matrix"));
  std::uint64_t sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<std::uint64_t>(byte);
  ASSERT_GT(sum, 0U);
  ASSERT_GT(resident_pages(bytes), 100U) << "the test cannot see its own pages";
  const auto matrix =
      backend->import_weight(file, file->tensor("matrix"), WeightRole::column_split);
  EXPECT_EQ(resident_pages(bytes), 0U);

  const auto table_bytes = file->data(file->tensor("table"));
  file->release_pages(file->tensor("table"));
  const auto table = backend->import_weight(file, file->tensor("table"), WeightRole::embedding);
  const auto ids = backend->make_index_list(1);
  ids->write(std::vector<std::int32_t>{8000});
  const auto out = backend->make_buffer(1, 1024);
  backend->embed(*table, *ids, out->rows(1));
  EXPECT_GT(resident_pages(table_bytes), 0U);
  // The kernel maps neighbours of a touched page, at most a huge page of them at each end.
  EXPECT_LT(resident_pages(table_bytes), table_bytes.size() / 4096 / 2);
}

TEST(CpuPlugin, ShapesThatDisagreeAreAnErrorNotACrash) {
  const auto backend = make_backend({"portable"});
  WeightFile file;
  file.add("w", DType::q4_0, 32, 64, 1);
  const auto w = file.import_to(*backend, "w");
  const auto x = backend->make_buffer(2, 96);
  const auto out = backend->make_buffer(2, 32);
  EXPECT_THROW(backend->linear_residual(x->rows(2), *w, nullptr, out->rows(2)), Error);
}

}  // namespace
}  // namespace dllm::test

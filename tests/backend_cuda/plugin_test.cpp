// The plugin without a GPU: it loads everywhere and says what it lacks.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda_support.hpp"
#include "error_of.hpp"
#include "weight_sizes.hpp"

namespace dllm::test {
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return text;
  char line[256];
  while (fgets(line, sizeof line, pipe)) text += line;
  pclose(pipe);
  return text;
}

TEST(CudaPlugin, IsAcceptedAndEitherRunsOrSaysWhyNot) {
  const BackendFactory* factory = cuda_factory();
  ASSERT_NE(factory, nullptr);
  const BackendFactory::Probe probe = factory->probe();
  EXPECT_EQ(probe.usable, probe.reason.empty()) << probe.reason;
  EXPECT_EQ(probe.usable, !probe.devices.empty());
  EXPECT_GT(factory->preference(), 0);
}

TEST(CudaPlugin, NeedsNoCudaLibraryToLoad) {
  const std::string needed =
      output_of("readelf -d " + plugin_folder() + "/backend_cuda.so 2>/dev/null");
  if (needed.find("NEEDED") == std::string::npos) GTEST_SKIP() << "readelf is not installed";
  EXPECT_EQ(needed.find("libcuda"), std::string::npos) << needed;
  EXPECT_EQ(needed.find("libcublas"), std::string::npos) << needed;
}

// It is the host application's: other threads may read it, other libraries act by it.
TEST(CudaPlugin, LeavesTheEnvironmentAsItIs) {
  const auto environment = [] {
    std::vector<std::string> all;
    for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
    return all;
  };
  const BackendFactory* factory = cuda_factory();
  ASSERT_NE(factory, nullptr);
  const std::vector<std::string> before = environment();
  if (factory->probe().usable) (void)make_cuda();
  EXPECT_EQ(environment(), before);
}

class CudaFaults : public CudaTest {};

TEST_F(CudaFaults, AGpuThatDoesNotExistIsNamed) {
  const Error error = error_of([&] { make_cuda({{"device", "63"}}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_usage);
  EXPECT_NE(error.fact().find("63"), std::string::npos);
}

TEST_F(CudaFaults, TooLittleMemoryIsRefusedWithBothFigures) {
  const auto limited = make_cuda({{"gpu_memory", "0.001"}});
  const Error error = error_of([&] { limited->make_buffer(1000, 1000); });
  EXPECT_EQ(error.code(), ErrorCode::resource);
  EXPECT_NE(error.fact().find("4000000"), std::string::npos) << error.what();
}

TEST_F(CudaFaults, AModelThatDoesNotFitIsRefusedBeforeTheFirstUpload) {
  WeightFile file;
  file.add("a", DType::f16, 512, 1024, 1);
  file.add("b", DType::f32, 512, 1024, 2);
  const std::vector<PlannedImport> imports = {{&file.file()->tensor("a"), WeightRole::column_split},
                                              {&file.file()->tensor("b"), WeightRole::embedding}};
  backend().check_room(imports);
  const auto limited = make_cuda({{"gpu_memory", "0.001"}});
  const std::uint64_t free_before = limited->device().available_bytes;
  const Error error = error_of([&] { limited->check_room(imports); });
  EXPECT_EQ(error.code(), ErrorCode::resource);
  // 1 MiB packed, 1 MiB to upload it, 2 MiB of the table
  EXPECT_NE(error.fact().find("needs 4194304 bytes of GPU memory, 0 are available"),
            std::string::npos)
      << error.what();
  EXPECT_EQ(limited->device().available_bytes, free_before);
}

// Others may use the GPU meanwhile: three attempts.
TEST_F(CudaFaults, TheDefaultTakesBinary16WhereMixedProductsDoNotFit) {
  constexpr std::uint64_t kSlack = 4u << 20;
  if (!make_products("mixed")) GTEST_SKIP() << "the GPU is older";
  WeightFile file;
  file.add("w", DType::q4_k, 4096, 4096, 1);
  const std::vector<PlannedImport> imports = {
      {&file.file()->tensor("w"), WeightRole::column_split}};
  const std::uint64_t needed = cuda::room_needed(imports, cuda::Products::f16);
  ASSERT_LT(needed + 2 * kSlack, cuda::room_needed(imports, cuda::Products::mixed));
  // What the backend says of its choice with so many bytes left.
  const auto choice = [&](std::uint64_t room) {
    const DeviceInfo device = backend().device();
    const std::uint64_t used = device.total_bytes - device.available_bytes;
    const double limit = static_cast<double>(used + room) / (1u << 30);
    std::string said;
    const Log log([&](LogLevel, std::string_view, std::string_view message) { said = message; });
    const auto limited = cuda_factory()->create(
        check_options(cuda_factory()->options(), {{"gpu_memory", std::to_string(limit)}}, ""), log);
    try {
      limited->check_room(imports);
      (void)file.import_to(*limited, "w", WeightRole::column_split);
    } catch (const Error& error) {
      said = error.what();
    }
    return said;
  };
  std::string said;
  for (int attempt = 0; attempt < 3; ++attempt) {
    said = choice(needed + kSlack);
    if (said.find("products=f16, because mixed products need ") == 0) break;
  }
  EXPECT_EQ(said.find("products=f16, because mixed products need "), 0) << said;
  EXPECT_EQ(choice(std::uint64_t{4} << 30), "products=mixed");
}

// The figure is not too small, which would let an upload begin that cannot end, and not too large
// by more than the page that small pieces share. Others may use the GPU meanwhile: three attempts.
TEST_F(CudaFaults, RoomIsWhatUploadingTakes) {
  constexpr std::int64_t kPage = 2 << 20;
  WeightFile file;
  for (int i = 0; i < 6; ++i)
    file.add(std::string(1, static_cast<char>('a' + i)), i % 2 == 0 ? DType::q4_k : DType::f16,
             1090, 2048, static_cast<std::uint64_t>(i));
  std::vector<PlannedImport> imports;
  for (const TensorInfo& tensor : file.file()->tensors())
    imports.push_back({&tensor, WeightRole::column_split});
  const auto needed = static_cast<std::int64_t>(cuda::room_needed(imports));
  std::int64_t off = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto other = make_cuda();
    const std::uint64_t before = other->device().available_bytes;
    std::vector<std::unique_ptr<Weight>> weights;
    for (const PlannedImport& each : imports)
      weights.push_back(file.import_to(*other, each.tensor->name, each.role));
    off = static_cast<std::int64_t>(before - other->device().available_bytes) - needed;
    if (std::abs(off) <= kPage) return;
  }
  ADD_FAILURE() << "room_needed() says " << needed << " bytes, uploading took " << off << " more";
}

}  // namespace
}  // namespace dllm::test

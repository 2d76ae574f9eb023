// The plugin without a GPU: it loads everywhere and says what it lacks.
#include <cstdio>
#include <string>

#include "cuda_support.hpp"

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
      output_of(std::string("readelf -d ") + DLLM_TEST_PLUGINS + "/backend_cuda.so 2>/dev/null");
  if (needed.find("NEEDED") == std::string::npos) GTEST_SKIP() << "readelf is not installed";
  EXPECT_EQ(needed.find("libcuda"), std::string::npos) << needed;
  EXPECT_EQ(needed.find("libcublas"), std::string::npos) << needed;
}

class CudaFaults : public CudaTest {};

TEST_F(CudaFaults, AGpuThatDoesNotExistIsNamed) {
  try {
    cuda_factory()->create(
        check_options(cuda_factory()->options(), {{"device", "63"}}, "backend cuda"), Log());
    FAIL() << "there are 64 GPUs";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_usage);
    EXPECT_NE(error.fact().find("63"), std::string::npos);
  }
}

TEST_F(CudaFaults, TooLittleMemoryIsRefusedWithBothFigures) {
  const auto limited = cuda_factory()->create(
      check_options(cuda_factory()->options(), {{"gpu_memory", "0.001"}}, "backend cuda"), Log());
  try {
    limited->make_buffer(1000, 1000);
    FAIL() << "4 MB fit below 1 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource);
    EXPECT_NE(error.fact().find("4000000"), std::string::npos) << error.what();
  }
}

TEST_F(CudaFaults, MasksThatAreNotBuiltAreRefusedByName) {
  const auto spans = backend().make_attention_spans(1);
  const std::vector<AttentionSpan> list = {{0, 1, 0, 1, MaskKind::block_causal}};
  try {
    spans->write(list);
    FAIL() << "block_causal was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.fact().find("block_causal"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dllm::test

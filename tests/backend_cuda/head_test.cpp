// The CUDA backend's head beyond what every backend's is held to (head_stats_test.cpp of
// tests/backend_conformance): rows in pieces, whole logits.
#include <array>

#include "cuda_support.hpp"

namespace dllm::test {
namespace {

class CudaHead : public CudaTest {};

// More rows than one piece of the logits buffer holds (256 MiB / (4 * 126,464) = 530).
TEST_F(CudaHead, MoreRowsThanFitAtOnceAreAnsweredInPieces) {
  constexpr std::uint32_t kVocab = 126464;
  constexpr std::uint32_t kRows = 600;
  WeightFile file;
  file.add("output", DType::q8_0, kVocab, 32, 1);
  file.add_vector("norm", random_floats(32, 2, 2));
  const auto output = file.import_to(backend(), "output");
  const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
  const auto values = random_floats(std::size_t{kRows} * 32, 3, 2);
  const auto stats_of = [&](std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint32_t> positions;
    for (std::uint32_t r = 0; r < count; ++r) positions.push_back(first + r);
    StatsRequest request;
    request.positions = positions;
    request.want = kStatSampled | kStatEntropy;
    request.temperature = 1;
    request.n_tokens = kVocab;
    request.seed = 9;
    const auto at = values.begin() + std::ptrdiff_t{first} * 32;
    const auto x = fill({at, at + std::ptrdiff_t{count} * 32}, 32);
    HeadStats stats;
    stats.reserve(count, 0, 0);
    const std::array requests = {request};
    backend().head_stats(x->rows(count), *norm, 1e-5F, *output, requests, stats);
    return stats;
  };
  const HeadStats together = stats_of(0, kRows);
  for (const std::uint32_t r : {0U, 529U, 530U, 599U}) {
    const HeadStats alone = stats_of(r, 1);
    EXPECT_EQ(alone.sampled[0], together.sampled[r]);
    expect_same({alone.entropy[0], alone.sampled_prob[0]},
                {together.entropy[r], together.sampled_prob[r]});
  }
}

TEST_F(CudaHead, LogitsAgreeWithOracle) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::f16}) {
    SCOPED_TRACE(dtype_name(dtype));
    WeightFile file;
    file.add("output", dtype, 177, 512, 1);
    file.add_vector("norm", random_floats(512, 2, 2));
    const auto values = random_floats(std::size_t{5} * 512, 3, 2);
    const Rows normed = oracle_norm(to_rows(values, 512), file.vector("norm"), 1e-5);
    const auto output = file.import_to(backend(), "output");
    const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
    const auto x = fill(values, 512);
    std::vector<float> got(std::size_t{5} * 177);
    backend().logits(x->rows(5), *norm, 1e-5F, *output, got);
    const Rows want = oracle_linear(file.decoded("output"), normed);
    expect_near(got, want, half_tolerance(file.decoded("output"), normed));
    EXPECT_LT(relative_error(got, want), 6e-4);
  }
}

}  // namespace
}  // namespace dllm::test

// What the CPU backend promises beyond what every backend does: the same rows on any number of
// threads, whole logits by the mode of its products, ids outside a table refused.
#include <array>

#include "attention_case.hpp"
#include "dllm/error.hpp"

namespace dllm::test {
namespace {

constexpr std::uint32_t kStreamed =
    kStatSampled | kStatArgmax | kStatTop2 | kStatEntropy | kStatLogSumExp;

TEST(Embed, RefusesAnIdOutsideTheTable) {
  WeightFile file;
  file.add("table", DType::f32, 3, 8, 1);
  auto backend = make_backend({"portable"});
  const auto table = file.import_to(*backend, "table", WeightRole::embedding);
  const auto out = backend->make_buffer(1, 8);
  const auto ids = backend->make_index_list(1);
  for (const std::int32_t id : {-1, 3}) {
    ids->write(std::vector<std::int32_t>{id});
    EXPECT_THROW(backend->embed(*table, *ids, out->rows(1)), Error);
  }
}

TEST(CpuAttention, IsTheSameForAnyThreads) {
  const AttentionCase c = {4, 2, 24, {}};
  const auto spans = pack({5, 90, 33});
  const auto q = random_floats(std::size_t{128} * 96, 1, 2);
  const auto k = random_floats(std::size_t{128} * 48, 2, 2);
  const auto v = random_floats(std::size_t{128} * 48, 3);
  for (const Subject& subject : subjects()) {
    std::vector<float> first;
    for (const int threads : {1, 2, 7}) {
      SCOPED_TRACE(subject.name + " threads " + std::to_string(threads));
      const auto backend = make_backend({subject.name, "exact", threads});
      const auto got = run_attention(subject, *backend, c, spans, q, k, v, 0.3F);
      if (first.empty()) first = got;
      expect_same(got, first);
    }
  }
}

std::vector<RunSetup> head_setups() {
  std::vector<RunSetup> setups;
  for (const std::string& isa : usable_isas()) {
    setups.push_back({isa, "exact"});
    if (has_fast_products(isa)) setups.push_back({isa, "fast"});
  }
  return setups;
}

// Quantised head: the same row alone, in company, guided or not, with any thread count.
TEST(CpuHead, RowsAreTheSameAloneAndInCompanyAndForAnyThreads) {
  constexpr std::uint32_t kVocab = 1100;
  constexpr std::uint32_t kRows = 9;
  WeightFile file;
  file.add("output", DType::q6_k, kVocab, 256, 1);
  file.add_vector("norm", random_floats(256, 2, 2));
  const auto values = random_floats(std::size_t{kRows} * 256, 3, 2);
  for (const RunSetup& setup : head_setups()) {
    HeadStats first;
    for (const int threads : {1, 2, 7}) {
      auto backend = make_backend({setup.isa, setup.products, threads});
      const auto output = file.import_to(*backend, "output");
      const auto norm = file.import_to(*backend, "norm", WeightRole::replicated);
      const auto run = [&](std::uint32_t begin, std::uint32_t count, float top_p) {
        std::vector<std::uint32_t> positions;
        for (std::uint32_t r = 0; r < count; ++r) positions.push_back(begin + r);
        StatsRequest request;
        request.positions = positions;
        request.want = kStreamed;
        request.temperature = 1;
        request.top_p = top_p;
        request.n_tokens = kVocab;
        request.seed = 3;
        const std::array requests = {request};
        const auto at = values.begin() + std::ptrdiff_t{begin} * 256;
        const auto x = make_filled(*backend, {at, at + std::ptrdiff_t{count} * 256}, 256);
        HeadStats stats;
        stats.reserve(count, 0, 0);
        backend->head_stats(x->rows(count), *norm, 1e-5F, *output, requests, stats);
        return stats;
      };
      for (const float top_p : {1.0F, 0.8F}) {
        SCOPED_TRACE(setup.isa + " " + setup.products + " threads " + std::to_string(threads));
        const HeadStats together = run(0, kRows, top_p);
        if (threads == 1 && top_p == 1.0F) first = together;
        if (top_p == 1.0F) {
          expect_same(together.entropy, first.entropy);
          EXPECT_EQ(together.sampled, first.sampled);
        }
        for (std::uint32_t r = 0; r < kRows; ++r) {
          const HeadStats alone = run(r, 1, top_p);
          EXPECT_EQ(alone.sampled[0], together.sampled[r]);
          EXPECT_EQ(alone.argmax[0], together.argmax[r]);
          expect_same({alone.sampled_prob[0], alone.entropy[0], alone.log_sum_exp[0]},
                      {together.sampled_prob[r], together.entropy[r], together.log_sum_exp[r]});
        }
      }
    }
  }
}

TEST(Logits, AgreeWithOracleForQuantisedAndPlainWeights) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::f16}) {
    WeightFile file;
    file.add("output", dtype, 77, 512, 1);
    file.add_vector("norm", random_floats(512, 2, 2));
    const auto values = random_floats(std::size_t{5} * 512, 3, 2);
    const Rows normed = oracle_norm(to_rows(values, 512), file.vector("norm"), 1e-5);
    for (const RunSetup& setup : head_setups()) {
      SCOPED_TRACE(setup.name() + " " + std::string(dtype_name(dtype)));
      auto backend = make_backend(setup);
      const auto output = file.import_to(*backend, "output");
      const auto norm = file.import_to(*backend, "norm", WeightRole::replicated);
      const auto x = make_filled(*backend, values, 512);
      std::vector<float> got(std::size_t{5} * 77);
      backend->logits(x->rows(5), *norm, 1e-5F, *output, got);
      const Rows& decoded = file.decoded("output");
      expect_near(got, oracle_linear(decoded, normed),
                  dtype == DType::f16 ? f32_tolerance(decoded, normed)
                  : setup.products == "fast"
                      ? fast_tolerance(decoded, normed)
                      : int8_tolerance(decoded, normed, steps_of(setup, dtype)));
    }
  }
}

}  // namespace
}  // namespace dllm::test

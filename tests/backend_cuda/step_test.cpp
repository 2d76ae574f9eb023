// run_step: a step is recorded when its shape keeps coming; it replays with what the lists hold
// then, for the right model, and is forgotten when memory moves.
#include "cuda_support.hpp"
#include "direct_runs.hpp"

namespace dllm::test {
namespace {

using cuda::kDirectRuns;

class CudaStep : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    file_.add("table", DType::q8_0, 40, 64, 1);
    file_.add("w", DType::q4_0, 64, 64, 2);
    file_.add_vector("norm", random_floats(64, 3));
    table_ = file_.import_to(backend(), "table", WeightRole::embedding);
    w_ = file_.import_to(backend(), "w");
    norm_ = file_.import_to(backend(), "norm", WeightRole::replicated);
    backend().reserve({.max_tokens = 8,
                       .max_score_rows = 8,
                       .max_sequences = 1,
                       .width = 64,
                       .max_cols = 64,
                       .ffn_cols = 64,
                       .n_vocab = 40,
                       .max_heads = 1,
                       .max_sequence_length = 8});
    x_ = backend().make_buffer(8, 64);
    y_ = backend().make_buffer(8, 64);
    ids_ = backend().make_index_list(8);
  }

  void body(std::uint32_t n) {
    backend().embed(*table_, *ids_, x_->rows(n));
    const std::vector<Projection> projections = {{w_.get(), nullptr, y_->rows(n)}};
    backend().norm_linear(x_->rows(n), norm_.get(), 1e-5F, projections);
  }

  std::vector<float> direct(const std::vector<std::int32_t>& ids) {
    ids_->write(ids);
    const auto n = static_cast<std::uint32_t>(ids.size());
    body(n);
    return ::dllm::test::read(backend(), y_->rows(n));
  }

  std::vector<float> recorded(const std::vector<std::int32_t>& ids, const void* owner = nullptr) {
    ids_->write(ids);
    const auto n = static_cast<std::uint32_t>(ids.size());
    for (int i = 0; i < kDirectRuns; ++i) backend().run_step({owner, n, n, 1}, [] {});
    backend().run_step({owner, n, n, 1}, [&] { body(n); });
    return ::dllm::test::read(backend(), y_->rows(n));
  }

  WeightFile file_;
  std::unique_ptr<Weight> table_, w_, norm_;
  std::unique_ptr<Buffer> x_, y_;
  std::unique_ptr<IndexList> ids_;
  int n_bodies_ = 0;
};

// Reading results makes buffers, which forgets recordings; so replays are counted without reading.
TEST_F(CudaStep, ReplaysWithNewIds) {
  const std::vector<float> want = direct({7, 3, 39});
  ids_->write(std::vector<std::int32_t>{1, 2, 3});
  const auto run = [&] {
    backend().run_step({nullptr, 3, 3, 1}, [&] {
      ++n_bodies_;
      body(3);
    });
  };
  for (int i = 0; i < kDirectRuns + 1; ++i) run();
  EXPECT_EQ(n_bodies_, kDirectRuns + 1);
  ids_->write(std::vector<std::int32_t>{7, 3, 39});
  run();
  EXPECT_EQ(n_bodies_, kDirectRuns + 1);
  expect_same(::dllm::test::read(backend(), y_->rows(3)), want);
}

TEST_F(CudaStep, RunsWhatIsNotRecordedYet) {
  const std::vector<float> want = direct({7, 3, 39});
  ids_->write(std::vector<std::int32_t>{1, 2, 3});
  body(3);
  ids_->write(std::vector<std::int32_t>{7, 3, 39});
  backend().run_step({nullptr, 3, 3, 1}, [&] { body(3); });
  expect_same(::dllm::test::read(backend(), y_->rows(3)), want);
}

TEST_F(CudaStep, AnotherShapeOrModelIsRecordedAnew) {
  ids_->write(std::vector<std::int32_t>{1, 2, 3});
  const int models[2] = {};
  const auto run = [&](const void* owner, std::uint32_t n) {
    backend().run_step({owner, n, n, 1}, [&] {
      ++n_bodies_;
      body(3);
    });
  };
  for (int round = 0; round < kDirectRuns + 1; ++round) {
    run(&models[0], 3);
    run(&models[1], 3);
    run(&models[0], 4);
  }
  EXPECT_EQ(n_bodies_, 3 * (kDirectRuns + 1));
  run(&models[0], 3);
  run(&models[1], 3);
  EXPECT_EQ(n_bodies_, 3 * (kDirectRuns + 1));
}

TEST_F(CudaStep, IsTheSameAsDirectCallsAndSurvivesMemoryThatMoves) {
  EXPECT_EQ(recorded({5, 6}), direct({5, 6}));
  EXPECT_EQ(recorded({9, 0, 39, 4}), direct({9, 0, 39, 4}));
  backend().reserve({.max_tokens = 600,
                     .max_score_rows = 600,
                     .max_sequences = 1,
                     .width = 64,
                     .max_cols = 640,
                     .ffn_cols = 640,
                     .n_vocab = 40,
                     .max_heads = 1,
                     .max_sequence_length = 600});
  EXPECT_EQ(recorded({5, 6}), direct({5, 6}));
}

TEST_F(CudaStep, MoreShapesThanAreKeptStillRun) {
  ids_->write(std::vector<std::int32_t>{1, 2});
  for (const std::uint32_t n_keys : {40, 70})  // more than are kept, and than are remembered
    for (std::uint32_t i = 0; i < (kDirectRuns + 2) * n_keys; ++i) {
      const std::uint32_t key = i % n_keys + 1;
      backend().run_step({nullptr, key, key, 1}, [&] { body(2); });
    }
  EXPECT_EQ(::dllm::test::read(backend(), y_->rows(2)), direct({1, 2}));
}

}  // namespace
}  // namespace dllm::test

// Inside a step, sums of split products wait for whoever reads their rows. Whatever comes next, the
// step gives, bit for bit, what the same operations give one by one outside a step, where sums are
// added at once (and held to the oracles: linear_test.cpp).
#include <numeric>
#include <stdexcept>

#include "cuda_support.hpp"

namespace dllm::test {
namespace {

constexpr int kDirectRuns = 8;  // StepGraphs: of a shape, before it is recorded
constexpr float kEps = 1e-5F;

class CudaSums : public CudaTest, public testing::WithParamInterface<std::uint32_t> {
 protected:
  static constexpr std::uint32_t kWidth = 512;  // two parts of 256 inputs
  static constexpr std::uint32_t kFfn = 1024;
  static constexpr std::uint32_t kTallFfn = 8704;  // gate and up are not split, down in six parts
  enum Of { kX, kQ, kK, kV, kOut, kCount };

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    backend_ = make_cuda({{"recording", "always"}});
    for (const char* name : {"q", "k", "v", "out"}) file_.add(name, DType::q4_k, kWidth, kWidth, 1);
    file_.add("gate", DType::q4_k, kFfn, kWidth, 2);
    file_.add("up", DType::q4_k, kFfn, kWidth, 3);
    file_.add("down", DType::q6_k, kWidth, kFfn, 4);
    file_.add_vector("norm", random_floats(kWidth, 5, 2));
    file_.add_vector("bias", random_floats(kWidth, 6));
    for (const char* name : {"q", "k", "v", "out", "gate", "up", "down"})
      weights_[name] = file_.import_to(backend(), name);
    for (const char* name : {"norm", "bias"})
      weights_[name] = file_.import_to(backend(), name, WeightRole::replicated);
    backend().reserve({.max_tokens = kRows(),
                       .max_score_rows = kRows(),
                       .max_sequences = 1,
                       .width = kWidth,
                       .max_cols = kTallFfn,
                       .ffn_cols = kTallFfn,
                       .n_vocab = kWidth,
                       .max_heads = 32,
                       .max_sequence_length = kRows()});
    for (std::uint32_t i = 0; i < kCount; ++i) {
      initial_.push_back(fill(random_floats(std::size_t{kRows()} * kWidth, 10 + i), kWidth));
      buffers_.push_back(backend().make_buffer(kRows(), kWidth));
    }
    std::vector<std::int32_t> list(kRows());
    std::iota(list.begin(), list.end(), 0);
    all_ = backend().make_index_list(kRows());
    all_->write(list);
    std::reverse(list.begin(), list.end());
    reversed_ = backend().make_index_list(kRows());
    reversed_->write(list);
    spans_ = backend().make_attention_spans(1);
    spans_->write(std::vector<AttentionSpan>{{0, kRows(), 0, kRows(), MaskKind::full}});
  }

  static std::uint32_t kRows() { return GetParam(); }
  TensorView rows(Of of) { return buffers_[of]->rows(kRows()); }
  const Weight* weight(const char* name) { return weights_.at(name).get(); }

  void project(std::initializer_list<Of> to, const Weight* bias = nullptr) {
    std::vector<Projection> projections;
    for (const Of of : to)
      projections.push_back({weight(of == kQ ? "q" : of == kK ? "k" : "v"), bias, rows(of)});
    backend().norm_linear(rows(kX), weight("norm"), kEps, projections);
  }
  void add_to_x(Of from) {
    backend().linear_residual(rows(from), *weight("out"), nullptr, rows(kX));
  }
  void feed_forward() {
    backend().gated_mlp(rows(kX), *weight("norm"), kEps, *weight("gate"), *weight("up"),
                        *weight("down"));
  }
  void attend(std::uint32_t n_heads) {
    RopeParams rope;
    rope.n_heads = n_heads;
    rope.head_dim = rope.n_rot = kWidth / n_heads;
    backend().rope(rows(kQ), *all_, rope);
    backend().rope(rows(kK), *reversed_, rope);
    backend().attention(rows(kQ), rows(kK), rows(kV), *spans_,
                        {n_heads, n_heads, rope.head_dim, 0.2F}, rows(kOut));
  }

  void expect_as_at_once(std::initializer_list<Of> read, const std::function<void()>& body) {
    const auto from_start = [&] {
      for (std::uint32_t i = 0; i < kCount; ++i)
        backend().copy_rows(initial_[i]->rows(kRows()), *all_, rows(static_cast<Of>(i)));
      body();
    };
    const auto values = [&] {
      std::vector<float> out;
      for (const Of of : read) {
        const auto some = ::dllm::test::read(backend(), rows(of));
        out.insert(out.end(), some.begin(), some.end());
      }
      return out;
    };
    from_start();
    const std::vector<float> want = values();
    const StepKey key = {nullptr, kRows(), ++n_keys_, 1};
    backend().run_step(key, from_start);
    expect_same(values(), want);
    for (int i = 0; i < kDirectRuns + 2; ++i) backend().run_step(key, from_start);
    expect_same(values(), want);  // recorded, and replayed
  }

  WeightFile file_;
  std::map<std::string, std::unique_ptr<Weight>> weights_;
  std::vector<std::unique_ptr<Buffer>> initial_, buffers_;
  std::unique_ptr<IndexList> all_, reversed_;
  std::unique_ptr<AttentionSpans> spans_;
  std::uint32_t n_keys_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Rows, CudaSums, testing::Values(5U, 170U),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(CudaSums, AreAddedByTheOperationsOfALayer) {
  for (const std::uint32_t n_heads : {4U, 8U, 16U}) {  // heads of 128, 64 and 32 dimensions
    SCOPED_TRACE("heads " + std::to_string(n_heads));
    expect_as_at_once({kX, kOut}, [&] {
      for (int layer = 0; layer < 2; ++layer) {
        project({kQ, kK, kV}, layer == 0 ? weight("bias") : nullptr);
        attend(n_heads);
        add_to_x(kOut);
        feed_forward();
      }
    });
  }
}

TEST_P(CudaSums, AreAddedWhereGateAndUpAreMultipliedTogether) {
  WeightFile file;
  file.add("gate", DType::q4_0, kTallFfn, kWidth, 2);
  file.add("up", DType::q4_0, kTallFfn, kWidth, 3);
  file.add("down", DType::q4_0, kWidth, kTallFfn, 4);
  for (const char* name : {"gate", "up", "down"}) weights_[name] = file.import_to(backend(), name);
  expect_as_at_once({kX}, [&] {
    add_to_x(kOut);
    feed_forward();
    feed_forward();
  });
}

TEST_P(CudaSums, NobodyReadsAreAddedByTheEndOfTheStep) {
  expect_as_at_once({kX, kQ, kK}, [&] {
    feed_forward();
    project({kQ, kK}, weight("bias"));
  });
  expect_as_at_once({kX}, [&] { add_to_x(kOut); });
}

TEST_P(CudaSums, AreThereForEveryReaderOfTheSameRows) {
  expect_as_at_once({kQ, kK, kV, kOut, kX}, [&] {
    add_to_x(kOut);
    project({kQ});
    project({kK, kV});
    backend().copy_rows(rows(kX), *reversed_, rows(kOut));
  });
  expect_as_at_once({kX, kOut}, [&] {
    project({kQ, kK});
    backend().copy_rows(rows(kQ), *reversed_, rows(kOut));
    backend().linear_residual(rows(kQ), *weight("out"), weight("bias"), rows(kX));
    backend().linear_residual(rows(kQ), *weight("v"), nullptr, rows(kX));
    backend().linear_residual(rows(kK), *weight("v"), nullptr, rows(kX));
  });
}

TEST_P(CudaSums, OfSeveralProductsOntoTheSameRowsAreAllAdded) {
  expect_as_at_once({kX}, [&] {
    add_to_x(kOut);
    add_to_x(kV);
    feed_forward();
    feed_forward();
    add_to_x(kQ);
  });
}

TEST_P(CudaSums, OfMoreProductsThanALaunchTakesAreAllAdded) {
  expect_as_at_once({kQ, kK, kV, kOut}, [&] { project({kQ, kK, kV, kOut}, weight("bias")); });
}

TEST_P(CudaSums, OfRowsWrittenAnewAreForgotten) {
  expect_as_at_once({kQ, kX, kOut}, [&] {
    project({kQ, kK, kV});
    backend().copy_rows(rows(kOut), *reversed_, rows(kQ));
    attend(4);
    project({kQ});
  });
}

TEST_P(CudaSums, AreAddedToAllRowsWhereFewerAreRead) {
  const std::uint32_t few = kRows() - 2;
  expect_as_at_once({kX, kQ}, [&] {
    add_to_x(kOut);
    const std::vector<Projection> projections = {{weight("q"), nullptr, buffers_[kQ]->rows(few)}};
    backend().norm_linear(buffers_[kX]->rows(few), weight("norm"), kEps, projections);
  });
  expect_as_at_once({kX, kOut}, [&] {
    project({kQ, kK, kV});
    RopeParams rope;
    rope.n_heads = 4;
    rope.head_dim = rope.n_rot = kWidth / 4;
    backend().rope(rows(kQ), *all_, rope);
    const std::vector<Projection> projections = {{weight("k"), nullptr, buffers_[kQ]->rows(few)}};
    backend().norm_linear(buffers_[kX]->rows(few), weight("norm"), kEps, projections);
    backend().copy_rows(rows(kQ), *reversed_, rows(kOut));
  });
}

TEST_P(CudaSums, OfAStepThatFailedAreForgotten) {
  expect_as_at_once({kX, kOut}, [&] { add_to_x(kOut); });
  EXPECT_THROW(backend().run_step({nullptr, kRows(), ++n_keys_, 1},
                                  [&] {
                                    add_to_x(kV);
                                    throw std::runtime_error("");
                                  }),
               std::runtime_error);
  expect_as_at_once({kX, kOut}, [&] { feed_forward(); });
}

}  // namespace
}  // namespace dllm::test

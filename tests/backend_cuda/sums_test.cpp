// Inside a step, sums of split products wait for whoever reads their rows. Whatever comes next, the
// step gives, bit for bit, what the same operations give one by one outside a step, where sums are
// added at once (and held to the oracles: linear_test.cpp).
#include <numeric>
#include <stdexcept>

#include "cuda_support.hpp"
#include "direct_runs.hpp"

namespace dllm::test {
namespace {

using cuda::kDirectRuns;

constexpr float kEps = 1e-5F;

struct Size {
  std::uint32_t rows;
  std::uint32_t width;  // 512: sums in two parts; 768, 896: in three
  bool mixed = false;   // products: q, k, out, gate and up as int8, v and down in binary16
};

class CudaSums : public CudaTest, public testing::WithParamInterface<Size> {
 protected:
  static constexpr std::uint32_t kFfn = 1024;
  static constexpr std::uint32_t kTallFfn = 8704;  // gate and up are not split, down in six parts
  enum Of { kX, kQ, kK, kV, kOut, kCount };

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (GetParam().mixed && !make_products("mixed")) GTEST_SKIP() << "the GPU is older";
    backend_ = make_cuda({{"products", GetParam().mixed ? "mixed" : "f16"}});
    for (const char* name : {"q", "k", "out"}) file_.add(name, type(), width(), width(), 1);
    file_.add("v", GetParam().mixed ? DType::q6_k : type(), width(), width(), 1);
    file_.add("gate", type(), kFfn, width(), 2);
    file_.add("up", type(), kFfn, width(), 3);
    file_.add("down", DType::q6_k, width(), kFfn, 4);
    file_.add_vector("norm", random_floats(width(), 5, 2));
    file_.add_vector("bias", random_floats(width(), 6));
    for (const char* name : {"q", "k", "v", "gate", "up", "down"})
      weights_[name] = file_.import_to(backend(), name);
    weights_["out"] = file_.import_to(backend(), "out", WeightRole::row_split);
    for (const char* name : {"norm", "bias"})
      weights_[name] = file_.import_to(backend(), name, WeightRole::replicated);
    backend().reserve({.max_tokens = n_rows(),
                       .max_score_rows = n_rows(),
                       .max_sequences = 1,
                       .width = width(),
                       .max_cols = kTallFfn,
                       .ffn_cols = kTallFfn,
                       .n_vocab = width(),
                       .max_heads = 32,
                       .max_sequence_length = n_rows()});
    for (std::uint32_t i = 0; i < kCount; ++i) {
      initial_.push_back(fill(random_floats(std::size_t{n_rows()} * width(), 10 + i), width()));
      buffers_.push_back(backend().make_buffer(n_rows(), width()));
    }
    std::vector<std::int32_t> list(n_rows());
    std::iota(list.begin(), list.end(), 0);
    all_ = backend().make_index_list(n_rows());
    all_->write(list);
    std::reverse(list.begin(), list.end());
    reversed_ = backend().make_index_list(n_rows());
    reversed_->write(list);
    spans_ = backend().make_attention_spans(1);
    spans_->write(std::vector<AttentionSpan>{{0, n_rows(), 0, n_rows(), MaskKind::full}});
  }

  static std::uint32_t n_rows() { return GetParam().rows; }
  static std::uint32_t width() { return GetParam().width; }
  static DType type() { return width() % 256 == 0 ? DType::q4_k : DType::q4_0; }
  TensorView rows(Of of) { return buffers_[of]->rows(n_rows()); }
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
  void attend(std::uint32_t head_dim) {
    RopeParams rope;
    rope.n_heads = width() / head_dim;
    rope.head_dim = rope.n_rot = head_dim;
    backend().rope(rows(kQ), *all_, rope);
    backend().rope(rows(kK), *reversed_, rope);
    backend().attention(rows(kQ), rows(kK), rows(kV), *spans_,
                        {rope.n_heads, rope.n_heads, head_dim, 0.2F}, rows(kOut));
  }

  void expect_as_at_once(std::initializer_list<Of> read, const std::function<void()>& body) {
    const auto from_start = [&] {
      for (std::uint32_t i = 0; i < kCount; ++i)
        backend().copy_rows(initial_[i]->rows(n_rows()), *all_, rows(static_cast<Of>(i)));
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
    const StepKey key = {nullptr, n_rows(), ++n_keys_, 1};
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

INSTANTIATE_TEST_SUITE_P(Rows, CudaSums,
                         testing::Values(Size{5, 512}, Size{170, 512}, Size{170, 768}, Size{5, 896},
                                         Size{5, 1024, true}, Size{170, 1024, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.width) +
                                  (info.param.mixed ? "mixed" : "");
                         });

TEST_P(CudaSums, AreAddedByTheOperationsOfALayer) {
  for (const std::uint32_t head_dim : {128U, 64U, 32U}) {
    SCOPED_TRACE("heads of " + std::to_string(head_dim));
    expect_as_at_once({kX, kOut}, [&] {
      for (int layer = 0; layer < 2; ++layer) {
        project({kQ, kK, kV}, layer == 0 ? weight("bias") : nullptr);
        attend(head_dim);
        add_to_x(kOut);
        feed_forward();
      }
    });
  }
}

TEST_P(CudaSums, AreAddedWhereGateAndUpAreMultipliedTogether) {
  WeightFile file;
  file.add("gate", DType::q4_0, kTallFfn, width(), 2);
  file.add("up", DType::q4_0, kTallFfn, width(), 3);
  file.add("down", DType::q4_0, width(), kTallFfn, 4);
  for (const char* name : {"gate", "up", "down"}) weights_[name] = file.import_to(backend(), name);
  expect_as_at_once({kX}, [&] {
    add_to_x(kOut);
    feed_forward();
    feed_forward();
  });
}

// A block that norms holds 4,096 columns of a row, and walks over the others twice.
TEST_P(CudaSums, OfRowsLongerThanABlockHoldsAreAddedOnce) {
  constexpr std::uint32_t kLong = 4616;
  WeightFile file;
  file.add("long", DType::q4_0, kLong, width(), 2);
  file.add("back", DType::f16, width(), kLong, 3);
  file.add_vector("long_norm", random_floats(kLong, 4, 2));
  for (const char* name : {"long", "back"}) weights_[name] = file.import_to(backend(), name);
  weights_["long_norm"] = file.import_to(backend(), "long_norm", WeightRole::replicated);
  const auto initial = fill(random_floats(std::size_t{n_rows()} * kLong, 5), kLong);
  const auto x = backend().make_buffer(n_rows(), kLong);
  expect_as_at_once({kX, kQ}, [&] {
    backend().copy_rows(initial->rows(n_rows()), *all_, x->rows(n_rows()));
    backend().linear_residual(rows(kOut), *weight("long"), nullptr, x->rows(n_rows()));
    const std::vector<Projection> projections = {{weight("back"), nullptr, rows(kQ)}};
    backend().norm_linear(x->rows(n_rows()), weight("long_norm"), kEps, projections);
    backend().linear_residual(x->rows(n_rows()), *weight("back"), nullptr, rows(kX));
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
    attend(128);
    project({kQ});
  });
}

TEST_P(CudaSums, AreAddedToAllRowsWhereFewerAreRead) {
  const std::uint32_t few = n_rows() - 2;
  expect_as_at_once({kX, kQ}, [&] {
    add_to_x(kOut);
    const std::vector<Projection> projections = {{weight("q"), nullptr, buffers_[kQ]->rows(few)}};
    backend().norm_linear(buffers_[kX]->rows(few), weight("norm"), kEps, projections);
  });
  expect_as_at_once({kX, kOut}, [&] {
    project({kQ, kK, kV});
    RopeParams rope;
    rope.n_heads = width() / 128;
    rope.head_dim = rope.n_rot = 128;
    backend().rope(rows(kQ), *all_, rope);
    const std::vector<Projection> projections = {{weight("k"), nullptr, buffers_[kQ]->rows(few)}};
    backend().norm_linear(buffers_[kX]->rows(few), weight("norm"), kEps, projections);
    backend().copy_rows(rows(kQ), *reversed_, rows(kOut));
  });
}

TEST_P(CudaSums, OfAStepThatFailedAreForgotten) {
  expect_as_at_once({kX, kOut}, [&] { add_to_x(kOut); });
  EXPECT_THROW(backend().run_step({nullptr, n_rows(), ++n_keys_, 1},
                                  [&] {
                                    add_to_x(kV);
                                    throw std::runtime_error("");
                                  }),
               std::runtime_error);
  expect_as_at_once({kX, kOut}, [&] { feed_forward(); });
}

}  // namespace
}  // namespace dllm::test

// Attention that writes its result as the output product reads it, too (panel of binary16 rows, a
// power of two each that is known before the result is): its accuracy where values differ in size,
// and recorded steps, whose bodies do not run when they are replayed. What holds for every backend:
// attention_output_test.cpp of tests/backend_conformance.
#include <cmath>
#include <limits>

#include "attention_case.hpp"
#include "cuda_support.hpp"
#include "direct_runs.hpp"

namespace dllm::test {
namespace {

using cuda::kDirectRuns;

constexpr std::uint32_t kOut = 64;

class CudaAttentionPanel : public CudaTest {
 protected:
  // A matrix of random values in `n` columns from `first`, 0 elsewhere.
  std::unique_ptr<Weight> weight(WeightFile& file, std::uint32_t width, std::uint32_t first,
                                 std::uint32_t n) {
    Rows rows(kOut, std::vector<double>(width, 0.0));
    const auto values = random_floats(std::size_t{kOut} * n, 9);
    for (std::uint32_t o = 0; o < kOut; ++o)
      for (std::uint32_t i = 0; i < n; ++i)
        rows[o][first + i] = static_cast<double>(values[o * n + i]);
    file.add_matrix("w", rows);
    return file.import_to(backend(), "w", WeightRole::row_split);
  }

  std::vector<float> product(TensorView x, const Weight& w) {
    const auto residual = fill(std::vector<float>(std::size_t{x.n_rows} * kOut, 0.0F), kOut);
    backend().linear_residual(x, w, nullptr, residual->rows(x.n_rows));
    return read(residual->rows(x.n_rows));
  }

  // Attention and its product with the columns of one head, against float64, relative to the sizes
  // of that head's values.
  double error_of_head(const AttentionCase& c, std::uint32_t head, const std::vector<float>& q,
                       const std::vector<float>& k, const std::vector<float>& v) {
    const auto spans = pack(c.lengths);
    const std::uint32_t n = spans.back().q_begin + spans.back().q_count;
    const std::uint32_t width = c.n_heads * c.head_dim;
    const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
    const AttentionParams params = {c.n_heads, c.n_kv_heads, c.head_dim, 0.1F};
    const auto q_rows = fill(q, width);
    const auto k_rows = fill(k, kv_width);
    const auto v_rows = fill(v, kv_width);
    const auto out = backend().make_buffer(n, width);
    const auto list = backend().make_attention_spans(8);
    list->write(spans);
    WeightFile file;
    const auto w = weight(file, width, head * c.head_dim, c.head_dim);
    backend().attention(q_rows->rows(n), k_rows->rows(n), v_rows->rows(n), *list, params,
                        out->rows(n));
    const Rows attended = oracle_attention(
        half_rounded(to_rows(q, width), c.head_dim), half_rounded(to_rows(k, kv_width), c.head_dim),
        half_rounded(to_rows(v, kv_width), c.head_dim), spans, params);
    return relative_error(product(out->rows(n), *w), oracle_linear(file.decoded("w"), attended));
  }
};

// Roundings to 11 bits, 2^-12.8 each in the root mean square: of weights of values, of attention's
// result and of W.
constexpr double kRoundings = 6e-4;

// A head whose values are 2^-12 and 2^-22 of another's is as near as if it were alone.
TEST_F(CudaAttentionPanel, KeepsSmallHeadsBesideLargeOnes) {
  for (const std::uint32_t dim : {64U, 128U}) {
    for (const int apart : {0, 12, 22}) {
      SCOPED_TRACE(std::to_string(dim) + " dimensions, 2^" + std::to_string(apart));
      const AttentionCase c = {8, 8, dim, {70, 50}};
      const std::uint32_t width = 8 * dim;
      const auto q = random_floats(std::size_t{120} * width, 1, 2);
      const auto k = random_floats(std::size_t{120} * width, 2, 2);
      auto v = random_floats(std::size_t{120} * width, 3);
      for (std::size_t i = 0; i < v.size(); ++i)
        if (i % width / dim == 6) v[i] = std::ldexp(v[i], apart);
      EXPECT_LT(error_of_head(c, 1, q, k, v), kRoundings);
      EXPECT_LT(error_of_head(c, 6, q, k, v), kRoundings);
    }
  }
}

// A key that no query looks at has huge values in one head: the result of all queries is tiny
// beside the bound that their power of two is made from. (In that head itself attention's weights
// are relative to the huge one's; the others lose nothing.)
TEST_F(CudaAttentionPanel, KeepsResultsThatAreTinyBesideTheLargestValue) {
  const AttentionCase c = {4, 2, 128, {160}};
  const std::uint32_t width = 4 * 128;
  const std::uint32_t kv_width = 2 * 128;
  auto q = random_floats(std::size_t{160} * width, 1);
  auto k = random_floats(std::size_t{160} * kv_width, 2);
  auto v = random_floats(std::size_t{160} * kv_width, 3);
  for (std::size_t row = 0; row < 160; ++row)
    for (std::size_t head = 0; head < 4; ++head) q[row * width + head * 128] = 40;
  for (std::size_t d = 0; d < 128; ++d) v[77 * kv_width + 128 + d] = std::ldexp(1.0F, 20);
  k[77 * kv_width + 128] = -40;
  EXPECT_LT(error_of_head(c, 0, q, k, v), kRoundings);
}

// products=int8: steps are of a row and 128 inputs, a head, so what attention writes is what would
// be made of its rows.
TEST_F(CudaAttentionPanel, OfInt8IsMadeAsFromItsRows) {
  backend_ = make_products("int8");
  if (!backend_) GTEST_SKIP() << "the GPU is older";
  constexpr std::uint32_t kWidth = 4 * 128;
  constexpr std::uint32_t kKvWidth = 2 * 128;
  for (const std::vector<std::uint32_t>& lengths :
       std::vector<std::vector<std::uint32_t>>{{50, 3, 37}, {160}, {192, 1}}) {
    const auto spans = pack(lengths);
    const std::uint32_t n = spans.back().q_begin + spans.back().q_count;
    SCOPED_TRACE(std::to_string(n) + " rows");
    auto q = random_floats(std::size_t{n} * kWidth, 1, 2);
    q[std::size_t{2} * kWidth + 130] = std::numeric_limits<float>::quiet_NaN();
    auto v = random_floats(std::size_t{n} * kKvWidth, 3);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = i / 128 % 2 == 0 ? v[i] : 0;
    const auto q_rows = fill(q, kWidth);
    const auto k_rows = fill(random_floats(std::size_t{n} * kKvWidth, 2, 2), kKvWidth);
    const auto v_rows = fill(v, kKvWidth);
    const auto out = backend().make_buffer(n, kWidth);
    const auto copy = backend().make_buffer(n, kWidth);
    const auto list = backend().make_attention_spans(3);
    list->write(spans);
    const auto all = backend().make_index_list(n);
    std::vector<std::int32_t> rows(n);
    for (std::uint32_t r = 0; r < n; ++r) rows[r] = static_cast<std::int32_t>(r);
    all->write(rows);
    WeightFile file;
    file.add("w", DType::q8_0, kOut, kWidth, 4);
    const auto w = file.import_to(backend(), "w", WeightRole::row_split);
    backend().attention(q_rows->rows(n), k_rows->rows(n), v_rows->rows(n), *list, {4, 2, 128, 0.1F},
                        out->rows(n));
    const auto of_product = [&](Buffer& x) {
      const auto residual = fill(std::vector<float>(std::size_t{n} * kOut, 0.0F), kOut);
      backend().linear_residual(x.rows(n), *w, nullptr, residual->rows(n));
      return ::dllm::test::read(backend(), residual->rows(n));
    };
    const auto got = of_product(*out);
    backend().copy_rows(out->rows(n), *all, copy->rows(n));
    const auto want = of_product(*copy);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(std::isnan(got[i]), i / kOut == 2) << i;
      if (!std::isnan(want[i])) {
        EXPECT_EQ(got[i], want[i]) << i;
      }
    }
  }
}

// A recorded step reads rows by the panel only where it wrote both itself.
class CudaRecordedPanel : public CudaTest {
 protected:
  static constexpr std::uint32_t kRows = 250;
  static constexpr std::uint32_t kHeads = 2;
  static constexpr std::uint32_t kDim = 64;
  static constexpr std::uint32_t kWidth = kHeads * kDim;

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    file_.add("w", DType::q8_0, kWidth, kWidth, 4);
    w_ = file_.import_to(backend(), "w", WeightRole::row_split);
    backend().reserve({.max_tokens = kRows,
                       .max_score_rows = 0,
                       .max_sequences = 2,
                       .width = kWidth,
                       .max_cols = kWidth,
                       .ffn_cols = kWidth,
                       .n_vocab = 0,
                       .max_heads = kHeads,
                       .max_sequence_length = kRows});
    q_ = fill(random_floats(std::size_t{kRows} * kWidth, 1, 3), kWidth);
    k_ = fill(random_floats(std::size_t{kRows} * kWidth, 2, 3), kWidth);
    v_ = fill(random_floats(std::size_t{kRows} * kWidth, 3), kWidth);
    zeros_ = fill(std::vector<float>(std::size_t{kRows} * kWidth, 0.0F), kWidth);
    out_ = backend().make_buffer(kRows, kWidth);
    residual_ = backend().make_buffer(kRows, kWidth);
    spans_ = backend().make_attention_spans(2);
    all_ = backend().make_index_list(kRows);
    std::vector<std::int32_t> rows(kRows);
    for (std::uint32_t r = 0; r < kRows; ++r) rows[r] = static_cast<std::int32_t>(r);
    all_->write(rows);
    split_at(125);
  }

  void split_at(std::uint32_t first) {
    spans_->write(
        std::vector<AttentionSpan>{{0, first, 0, first, MaskKind::full},
                                   {first, kRows - first, first, kRows - first, MaskKind::full}});
  }
  void attend() {
    backend().attention(q_->rows(kRows), k_->rows(kRows), v_->rows(kRows), *spans_,
                        {kHeads, kHeads, kDim, 0.125F}, out_->rows(kRows));
  }
  void copy(Buffer& from, Buffer& to) {
    backend().copy_rows(from.rows(kRows), *all_, to.rows(kRows));
  }
  void multiply() {
    copy(*zeros_, *residual_);
    backend().linear_residual(out_->rows(kRows), *w_, nullptr, residual_->rows(kRows));
  }
  std::vector<float> result() { return ::dllm::test::read(backend(), residual_->rows(kRows)); }

  /// A step that is recorded now; run_step() with its key replays it.
  void record(
      std::uint32_t key, const std::function<void()>& body,
      const std::function<void()>& before = [] {}) {
    for (int i = 0; i < kDirectRuns; ++i) run(key, [] {});
    before();
    run(key, body);
  }
  void run(std::uint32_t key, const std::function<void()>& body) {
    backend().run_step({nullptr, kRows, key, 2}, body);
  }
  static void must_not_run() { ADD_FAILURE() << "the step was not replayed"; }

  WeightFile file_;
  std::unique_ptr<Weight> w_;
  std::unique_ptr<Buffer> q_, k_, v_, zeros_, out_, residual_;
  std::unique_ptr<AttentionSpans> spans_;
  std::unique_ptr<IndexList> all_;
};

TEST_F(CudaRecordedPanel, GivesWhatOpByOpGives) {
  attend();
  multiply();
  const auto want = result();
  record(1, [&] {
    attend();
    multiply();
  });
  copy(*zeros_, *out_);
  copy(*q_, *residual_);
  run(1, must_not_run);
  expect_same(result(), want);
}

// The product is recorded after an attention outside the step, and replayed after other rows.
TEST_F(CudaRecordedPanel, OfAnEarlierAttentionIsNotTaken) {
  copy(*q_, *out_);
  multiply();
  const auto want = result();
  record(1, [&] { multiply(); }, [&] { attend(); });
  copy(*q_, *out_);
  run(1, must_not_run);
  expect_same(result(), want);
}

// The replayed step writes the rows anew without a call that says so.
TEST_F(CudaRecordedPanel, IsForgottenWhenAStepIsReplayed) {
  copy(*q_, *out_);
  multiply();
  const auto want = result();
  record(1, [&] { copy(*q_, *out_); });
  attend();
  run(1, must_not_run);
  multiply();
  expect_same(result(), want);
}

// A list whose spans are not all short any more has other kernels.
TEST_F(CudaRecordedPanel, IsRecordedAnewWhereSpansBecomeLong) {
  const auto body = [&] {
    attend();
    multiply();
  };
  split_at(200);
  body();
  const auto want = result();
  split_at(125);
  record(1, body);
  split_at(200);
  bool ran = false;
  run(1, [&] {
    ran = true;
    body();
  });
  EXPECT_TRUE(ran);
  expect_same(result(), want);
}

}  // namespace
}  // namespace dllm::test

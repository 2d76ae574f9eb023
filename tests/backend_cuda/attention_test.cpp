// attention: lengths around the blocks, several sequences, grouped heads, odd head sizes; alone and
// with the rotations of a step.
//
// Operands are binary16. Two bounds follow: one on the distance from attention of the rounded
// operands, which only the rounding of the weights may cause, and a wide one on the distance from
// attention of the operands themselves.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda_support.hpp"

namespace dllm::test {
namespace {

struct Case {
  std::uint32_t n_heads;
  std::uint32_t n_kv_heads;
  std::uint32_t head_dim;
  std::vector<std::uint32_t> lengths;
};

std::vector<AttentionSpan> pack(const std::vector<std::uint32_t>& lengths) {
  std::vector<AttentionSpan> spans;
  std::uint32_t begin = 0;
  for (const std::uint32_t length : lengths) {
    spans.push_back({begin, length, begin, length, MaskKind::full});
    begin += length;
  }
  return spans;
}

class CudaAttention : public CudaTest {
 protected:
  std::vector<float> run(const Case& c, const std::vector<AttentionSpan>& list,
                         const std::vector<float>& q, const std::vector<float>& k,
                         const std::vector<float>& v, float scale) {
    const std::uint32_t width = c.n_heads * c.head_dim;
    const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
    const auto n = static_cast<std::uint32_t>(q.size() / width);
    const auto n_keys = static_cast<std::uint32_t>(k.size() / kv_width);
    const auto q_buffer = fill(q, width);
    const auto k_buffer = fill(k, kv_width);
    const auto v_buffer = fill(v, kv_width);
    const auto out = backend().make_buffer(n, width);
    const auto spans = backend().make_attention_spans(static_cast<std::uint32_t>(list.size()));
    spans->write(list);
    backend().attention(q_buffer->rows(n), k_buffer->rows(n_keys), v_buffer->rows(n_keys), *spans,
                        {c.n_heads, c.n_kv_heads, c.head_dim, scale}, out->rows(n));
    return read(out->rows(n));
  }
};

constexpr double kHalfRounding = 1.0 / 2048;  // 2^-11, relative

// x with 11 significant bits, as far down as 2^-14 of 2^exponent, in steps of 2^-24 of it below.
double half_of(double x, int exponent) {
  if (x == 0) return 0;
  const int of_x = std::max(std::ilogb(x), exponent - 14);
  return std::ldexp(std::nearbyint(std::ldexp(x, 10 - of_x)), of_x - 10);
}

// Every head's row in binary16, its largest value in [1, 2) times a power of two.
Rows half_rounded(Rows rows, std::uint32_t head_dim) {
  for (auto& row : rows)
    for (std::size_t begin = 0; begin < row.size(); begin += head_dim) {
      double largest = 0;
      for (std::size_t d = begin; d < begin + head_dim; ++d)
        largest = std::max(largest, std::abs(row[d]));
      for (std::size_t d = begin; d < begin + head_dim; ++d)
        row[d] = half_of(row[d], largest == 0 ? 0 : std::ilogb(largest));
    }
  return rows;
}

Rows absolute(Rows rows) {
  for (auto& row : rows)
    for (double& value : row) value = std::abs(value);
  return rows;
}

Rows scaled(Rows rows, double factor, double more) {
  for (auto& row : rows)
    for (double& value : row) value = value * factor + more;
  return rows;
}

TEST_F(CudaAttention, AgreesWithOracle) {
  const std::vector<Case> all = {
      {1, 1, 64, {1}},       {2, 2, 128, {3, 70}},  {6, 2, 64, {33, 1, 64}}, {4, 1, 128, {65, 40}},
      {3, 3, 72, {31, 129}}, {5, 5, 20, {10, 7}},   {8, 2, 8, {200}},        {2, 1, 256, {50}},
      {3, 1, 30, {40}},      {2, 1, 96, {300, 63}}, {1, 1, 128, {64, 128}},  {2, 2, 33, {70}},
      {2, 1, 128, {600}},    {2, 2, 64, {513}}};
  for (const Case& c : all) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    const auto spans = pack(c.lengths);
    const std::uint32_t n = spans.back().q_begin + spans.back().q_count;
    const std::uint32_t width = c.n_heads * c.head_dim;
    const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
    const auto q = random_floats(std::size_t{n} * width, 1, 3);
    const auto k = random_floats(std::size_t{n} * kv_width, 2, 3);
    const auto v = random_floats(std::size_t{n} * kv_width, 3);
    const AttentionParams params = {c.n_heads, c.n_kv_heads, c.head_dim, 0.25F};
    const auto got = run(c, spans, q, k, v, params.scale);
    const Rows q_rows = to_rows(q, width);
    const Rows k_rows = to_rows(k, kv_width);
    const Rows v_rows = to_rows(v, kv_width);
    const Rows size = oracle_attention(q_rows, k_rows, absolute(v_rows), spans, params);
    // Scores of up to 0.25 * 9 * head_dim are off by 2^-22 of that (sum, factor, power of two).
    const double of_scores = 2 * 0.25 * 9 * c.head_dim * std::ldexp(1.0, -22);
    expect_near(got,
                oracle_attention(half_rounded(q_rows, c.head_dim), half_rounded(k_rows, c.head_dim),
                                 half_rounded(v_rows, c.head_dim), spans, params),
                scaled(size, kHalfRounding + of_scores, 1e-6));
    // A score is a sum of head_dim products of size 3 * 3 / 3 (root mean square), each off by less
    // than 2^-11: four times its deviation, in the exponent, for a weight and for their sum.
    const double deviation = 0.25 * 3 * std::sqrt(c.head_dim) * kHalfRounding;
    expect_near(got, oracle_attention(q_rows, k_rows, v_rows, spans, params),
                scaled(size, std::expm1(2 * 4 * deviation) + 2 * kHalfRounding, 1e-6));
  }
}

// Whatever their size: every row has its own power of two.
TEST_F(CudaAttention, RowsOfAnySizeKeepTheirPrecision) {
  const Case c = {2, 1, 64, {130}};
  const auto spans = pack(c.lengths);
  auto q = random_floats(std::size_t{130} * 128, 1);
  auto k = random_floats(std::size_t{130} * 64, 2);
  auto v = random_floats(std::size_t{130} * 64, 3);
  for (std::size_t row = 0; row < 130; ++row) {
    const int away = static_cast<int>(row * 7 % 41) - 20;  // 2^-20 to 2^20
    for (std::size_t d = 0; d < 128; ++d) q[row * 128 + d] = std::ldexp(q[row * 128 + d], 40);
    for (std::size_t d = 0; d < 64; ++d) {
      k[row * 64 + d] = std::ldexp(k[row * 64 + d], -40);
      v[row * 64 + d] = std::ldexp(v[row * 64 + d], away);
    }
  }
  const AttentionParams params = {2, 1, 64, 0.5F};
  const Rows q_rows = to_rows(q, 128);
  const Rows k_rows = to_rows(k, 64);
  const Rows v_rows = to_rows(v, 64);
  const Rows size = oracle_attention(q_rows, k_rows, absolute(v_rows), spans, params);
  expect_near(run(c, spans, q, k, v, params.scale),
              oracle_attention(half_rounded(q_rows, 64), half_rounded(k_rows, 64),
                               half_rounded(v_rows, 64), spans, params),
              scaled(size, kHalfRounding + 1e-5, 1e-6));
}

TEST_F(CudaAttention, AValueThatIsNotFiniteShowsInEveryQueryOfItsSequence) {
  const Case c = {1, 1, 16, {40, 40}};
  const auto spans = pack(c.lengths);
  const auto q = random_floats(std::size_t{80} * 16, 1);
  const auto k = random_floats(std::size_t{80} * 16, 2);
  auto v = random_floats(std::size_t{80} * 16, 3);
  v[5 * 16] = std::numeric_limits<float>::infinity();
  const auto got = run(c, spans, q, k, v, 1);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isfinite(got[i]), i >= 40 * 16);
}

TEST_F(CudaAttention, LargeScoresDoNotOverflow) {
  const Case c = {1, 1, 8, {100}};
  const auto got = run(c, pack(c.lengths), random_floats(800, 1, 1000), random_floats(800, 2, 1000),
                       random_floats(800, 3), 1);
  for (const float value : got) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_LE(std::abs(value), 1.0001F);
  }
}

TEST_F(CudaAttention, QueriesMayBeFewerThanKeys) {
  const Case c = {2, 1, 16, {}};
  const std::vector<AttentionSpan> spans = {{0, 3, 0, 70, MaskKind::full},
                                            {3, 2, 70, 5, MaskKind::full}};
  const auto q = random_floats(std::size_t{5} * 32, 1);
  const auto k = random_floats(std::size_t{75} * 16, 2);
  const auto v = random_floats(std::size_t{75} * 16, 3);
  const Rows want =
      oracle_attention(to_rows(q, 32), to_rows(k, 16), to_rows(v, 16), spans, {2, 1, 16, 0.5F});
  expect_near(run(c, spans, q, k, v, 0.5F), want,
              Rows(5, std::vector<double>(32, 4 * kHalfRounding)));
}

TEST_F(CudaAttention, ASequenceIsTheSameAloneAndInCompany) {
  for (const std::uint32_t dim : {24U, 64U, 128U}) {
    SCOPED_TRACE("head_dim " + std::to_string(dim));
    const Case c = {4, 2, dim, {}};
    const auto spans = pack({5, 300, 33});  // the long one alone has larger blocks
    const std::size_t n = 338;
    const std::size_t width = 4 * dim;
    const std::size_t kv_width = 2 * dim;
    const auto q = random_floats(n * width, 1, 2);
    const auto k = random_floats(n * kv_width, 2, 2);
    const auto v = random_floats(n * kv_width, 3);
    const auto together = run(c, spans, q, k, v, 0.3F);
    std::vector<float> alone;
    for (const AttentionSpan& span : spans) {
      const auto part = [&](const std::vector<float>& all, std::size_t of_width) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(span.q_begin * of_width);
        return std::vector<float>(begin,
                                  begin + static_cast<std::ptrdiff_t>(span.q_count * of_width));
      };
      const auto one =
          run(c, pack({span.q_count}), part(q, width), part(k, kv_width), part(v, kv_width), 0.3F);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    expect_same(alone, together);
  }
}

// Inside a step, rotations wait for the attention that reads them.
class CudaRotations : public CudaTest {
 protected:
  static constexpr std::uint32_t kRows = 70;
  static constexpr std::uint32_t kHeads = 2;
  static constexpr std::uint32_t kDim = 24;
  static constexpr std::uint32_t kWidth = kHeads * kDim;

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    backend().reserve({.max_tokens = kRows,
                       .max_score_rows = 0,
                       .max_sequences = 1,
                       .width = kWidth,
                       .max_cols = kWidth,
                       .ffn_cols = kWidth,
                       .n_vocab = 0,
                       .max_heads = kHeads,
                       .max_sequence_length = kRows});
    q_ = fill(random_floats(std::size_t{kRows} * kWidth, 1), kWidth);
    k_ = fill(random_floats(std::size_t{kRows} * kWidth, 2), kWidth);
    v_ = fill(random_floats(std::size_t{kRows} * kWidth, 3), kWidth);
    out_ = backend().make_buffer(kRows, kWidth);
    positions_ = backend().make_index_list(kRows);
    others_ = backend().make_index_list(kRows);
    std::vector<std::int32_t> list(kRows);
    for (std::uint32_t i = 0; i < kRows; ++i) list[i] = static_cast<std::int32_t>(i * 11 % kRows);
    positions_->write(list);
    std::reverse(list.begin(), list.end());
    others_->write(list);
    spans_ = backend().make_attention_spans(1);
    spans_->write(std::vector<AttentionSpan>{{0, kRows, 0, kRows, MaskKind::full}});
    rope_.n_heads = kHeads;
    rope_.head_dim = kDim;
    rope_.n_rot = 16;
    rope_.kind = RopeKind::neox;
  }

  void attend() {
    backend().attention(q_->rows(kRows), k_->rows(kRows), v_->rows(kRows), *spans_,
                        {kHeads, kHeads, kDim, 0.2F}, out_->rows(kRows));
  }

  // Restores q and k, runs `body` as a step or at once, and reads `view`.
  std::vector<float> after(bool as_step, TensorView view, const std::function<void()>& body) {
    const auto q = fill(random_floats(std::size_t{kRows} * kWidth, 1), kWidth);
    const auto k = fill(random_floats(std::size_t{kRows} * kWidth, 2), kWidth);
    const auto all = backend().make_index_list(kRows);
    std::vector<std::int32_t> rows(kRows);
    for (std::uint32_t i = 0; i < kRows; ++i) rows[i] = static_cast<std::int32_t>(i);
    all->write(rows);
    backend().copy_rows(q->rows(kRows), *all, q_->rows(kRows));
    backend().copy_rows(k->rows(kRows), *all, k_->rows(kRows));
    if (as_step) {
      backend().run_step({nullptr, kRows, ++key_, 1}, body);
    } else {
      body();
    }
    return ::dllm::test::read(backend(), view);
  }

  void expect_same_as_at_once(Buffer& read, const std::function<void()>& body) {
    expect_same(after(true, read.rows(kRows), body), after(false, read.rows(kRows), body));
  }

  std::unique_ptr<Buffer> q_, k_, v_, out_;
  std::unique_ptr<IndexList> positions_, others_;
  std::unique_ptr<AttentionSpans> spans_;
  RopeParams rope_;
  std::uint32_t key_ = 0;
};

TEST_F(CudaRotations, ThatWaitForAttentionGiveWhatRotatingAtOnceGives) {
  expect_same_as_at_once(*out_, [&] {
    backend().rope(q_->rows(kRows), *positions_, rope_);
    backend().rope(k_->rows(kRows), *others_, rope_);
    attend();
  });
}

// Heads that rotate whole have a kernel of their own.
TEST_F(CudaRotations, OfWholeHeadsGiveWhatRotatingAtOnceGives) {
  rope_.n_rot = kDim;
  for (const RopeKind kind : {RopeKind::norm, RopeKind::neox}) {
    rope_.kind = kind;
    expect_same_as_at_once(*out_, [&] {
      backend().rope(q_->rows(kRows), *positions_, rope_);
      backend().rope(k_->rows(kRows), *others_, rope_);
      attend();
    });
  }
}

TEST_F(CudaRotations, ThatNobodyWaitsForAreDoneByTheEndOfTheStep) {
  expect_same_as_at_once(*q_, [&] { backend().rope(q_->rows(kRows), *positions_, rope_); });
}

TEST_F(CudaRotations, AreDoneBeforeAnotherOperationReads) {
  expect_same_as_at_once(*out_, [&] {
    backend().rope(q_->rows(kRows), *positions_, rope_);
    backend().copy_rows(q_->rows(kRows), *others_, out_->rows(kRows));
  });
}

TEST_F(CudaRotations, TwiceOverTheSameRowsAreBothDone) {
  expect_same_as_at_once(*out_, [&] {
    backend().rope(q_->rows(kRows), *positions_, rope_);
    backend().rope(q_->rows(kRows), *others_, rope_);
    backend().rope(k_->rows(kRows), *positions_, rope_);
    attend();
  });
}

TEST_F(CudaRotations, OfRowsWrittenAnewAreForgotten) {
  expect_same_as_at_once(*out_, [&] {
    backend().rope(q_->rows(kRows), *positions_, rope_);
    backend().copy_rows(v_->rows(kRows), *others_, q_->rows(kRows));
    attend();
  });
}

}  // namespace
}  // namespace dllm::test

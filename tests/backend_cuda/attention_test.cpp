// Attention of the CUDA backend beyond what every backend's is held to (attention_test.cpp of
// tests/backend_conformance): rows of any size, the rotations of a step.
#include <algorithm>
#include <cmath>

#include "attention_case.hpp"
#include "cuda_support.hpp"

namespace dllm::test {
namespace {

class CudaAttention : public CudaTest {};

// Whatever their size: every row has its own power of two.
TEST_F(CudaAttention, RowsOfAnySizeKeepTheirPrecision) {
  const AttentionCase c = {2, 1, 64, {130}};
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
  expect_near(run_attention(subjects()[0], backend(), c, spans, q, k, v, params.scale),
              oracle_attention(half_rounded(q_rows, 64), half_rounded(k_rows, 64),
                               half_rounded(v_rows, 64), spans, params),
              scaled(size, kHalfRounding + 1e-5, 1e-6));
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
      backend().run_step({nullptr, kRows, ++key_, 1}, [] {});  // recorded the second time
      backend().run_step({nullptr, kRows, key_, 1}, body);
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

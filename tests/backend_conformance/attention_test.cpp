// attention of every backend against the oracle: compiled into the program of each (subjects.hpp).
// Lengths around the query and key blocks, several sequences, grouped heads, head sizes that are no
// multiple of a vector; and its independence of the batch.
//
// Where operands are binary16 two bounds follow: one on the distance from attention of the rounded
// operands, which only the rounding of the weights may cause, and a wide one on the distance from
// attention of the operands themselves.
#include <cmath>
#include <limits>

#include "attention_case.hpp"
#include "dllm/error.hpp"
#include "error_of.hpp"

namespace dllm::test {
namespace {

class AttentionOp : public SubjectsTest {};

// f32: a score sums head_dim products of mean size 2.25: at the worst head_dim roundings of its
// size (2.25 * scale * head_dim) by 2^-24; random signs keep a sum within a tenth of that. Results
// are averages of |v| <= 1 and move by no more than the scores do.
void expect_as_f32(const std::vector<float>& got, const Rows& want, std::uint32_t head_dim,
                   double scale) {
  const double bound = head_dim * (2.25 * scale * head_dim) * 6e-8 / 10 + 2e-6;
  expect_near(got, want, Rows(want.size(), std::vector<double>(want[0].size(), bound)));
}

void expect_as_half(const std::vector<float>& got, const Operands& x,
                    const std::vector<AttentionSpan>& spans, const AttentionParams& params) {
  const std::uint32_t dim = params.head_dim;
  const double scale = static_cast<double>(params.scale);
  const Rows size = oracle_attention(x.q, x.k, absolute(x.v), spans, params);
  // Scores of up to scale * 9 * head_dim are off by 2^-22 of that (sum, factor, power of two).
  const double of_scores = 2 * scale * 9 * dim * std::ldexp(1.0, -22);
  expect_near(got,
              oracle_attention(half_rounded(x.q, dim), half_rounded(x.k, dim),
                               half_rounded(x.v, dim), spans, params),
              scaled(size, kHalfRounding + of_scores, 1e-6));
  expect_near(got, oracle_attention(x.q, x.k, x.v, spans, params),
              rounded_tolerance(size, params, kHalfRounding));
}

TEST_F(AttentionOp, AgreesWithOracle) {
  const std::vector<AttentionCase> all = {
      {1, 1, 64, {1}},       {2, 2, 128, {3, 70}},  {6, 2, 64, {33, 1, 64}}, {4, 1, 128, {65, 40}},
      {3, 3, 72, {31, 129}}, {5, 5, 20, {10, 7}},   {8, 2, 8, {200}},        {2, 1, 256, {50}},
      {3, 1, 30, {40}},      {2, 1, 96, {300, 63}}, {1, 1, 128, {64, 128}},  {2, 2, 33, {70}},
      {2, 1, 128, {600}},    {2, 2, 64, {513}}};
  for (const Subject& subject : attention_subjects()) {
    const auto backend = subject.make();
    for (const AttentionCase& c : all) {
      SCOPED_TRACE(subject.name + " head_dim " + std::to_string(c.head_dim));
      const auto spans = pack(c.lengths);
      const std::uint32_t n = spans.back().q_begin + spans.back().q_count;
      const std::uint32_t width = c.n_heads * c.head_dim;
      const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
      const auto q = random_floats(std::size_t{n} * width, 1, 3);
      const auto k = random_floats(std::size_t{n} * kv_width, 2, 3);
      const auto v = random_floats(std::size_t{n} * kv_width, 3);
      const AttentionParams params = {c.n_heads, c.n_kv_heads, c.head_dim, 0.25F};
      const auto got = run_attention(subject, *backend, c, spans, q, k, v, params.scale);
      const Operands x = {to_rows(q, width), to_rows(k, kv_width), to_rows(v, kv_width)};
      if (subject.half_operands) {
        expect_as_half(got, x, spans, params);
      } else if (subject.brain_operands) {
        expect_as_brains(got, x, spans, params);
      } else {
        expect_as_f32(got, oracle_attention(x.q, x.k, x.v, spans, params), c.head_dim, 0.25);
      }
    }
  }
}

TEST_F(AttentionOp, AValueThatIsNotFiniteShowsInEveryQueryOfItsSequence) {
  const AttentionCase c = {1, 1, 16, {40, 40}};
  const auto spans = pack(c.lengths);
  const auto q = random_floats(std::size_t{80} * 16, 1);
  const auto k = random_floats(std::size_t{80} * 16, 2);
  auto v = random_floats(std::size_t{80} * 16, 3);
  v[5 * 16] = std::numeric_limits<float>::infinity();
  for (const Subject& subject : attention_subjects()) {
    SCOPED_TRACE(subject.name);
    const auto backend = subject.make();
    const auto got = run_attention(subject, *backend, c, spans, q, k, v, 1);
    for (std::size_t i = 0; i < got.size(); i += 16)
      EXPECT_EQ(std::isfinite(got[i]), i >= 40 * 16) << i / 16;
  }
}

TEST_F(AttentionOp, LargeScoresDoNotOverflow) {
  const AttentionCase c = {1, 1, 8, {100}};
  const auto q = random_floats(800, 1, 1000);
  const auto k = random_floats(800, 2, 1000);
  const auto v = random_floats(800, 3);
  for (const Subject& subject : attention_subjects()) {
    SCOPED_TRACE(subject.name);
    const auto backend = subject.make();
    const auto got = run_attention(subject, *backend, c, pack(c.lengths), q, k, v, 1);
    for (const float value : got) {
      EXPECT_TRUE(std::isfinite(value));
      const bool rounds = subject.half_operands || subject.brain_operands;
      EXPECT_LE(std::abs(value), rounds ? 1.0001F : 1.0F);
    }
  }
}

TEST_F(AttentionOp, QueriesMayBeFewerThanKeys) {
  const AttentionCase c = {2, 1, 16, {}};
  const std::vector<AttentionSpan> spans = {{0, 3, 0, 70, MaskKind::full},
                                            {3, 2, 70, 5, MaskKind::full}};
  const auto q = random_floats(std::size_t{5} * 32, 1);
  const auto k = random_floats(std::size_t{75} * 16, 2);
  const auto v = random_floats(std::size_t{75} * 16, 3);
  const Rows want =
      oracle_attention(to_rows(q, 32), to_rows(k, 16), to_rows(v, 16), spans, {2, 1, 16, 0.5F});
  for (const Subject& subject : attention_subjects()) {
    SCOPED_TRACE(subject.name);
    const auto backend = subject.make();
    expect_near(run_attention(subject, *backend, c, spans, q, k, v, 0.5F), want,
                Rows(5, std::vector<double>(32, subject.half_operands    ? 4 * kHalfRounding
                                                : subject.brain_operands ? 4 * kBrainRounding
                                                                         : 2e-6)));
  }
}

TEST_F(AttentionOp, ASequenceIsTheSameAloneAndInCompany) {
  const auto spans = pack({5, 300, 33});  // the long one alone may have larger blocks
  constexpr std::size_t kRows = 338;
  for (const std::uint32_t dim : {24U, 64U, 128U}) {
    const AttentionCase c = {4, 2, dim, {}};
    const std::size_t width = std::size_t{4} * dim;
    const std::size_t kv_width = std::size_t{2} * dim;
    const auto q = random_floats(kRows * width, 1, 2);
    const auto k = random_floats(kRows * kv_width, 2, 2);
    const auto v = random_floats(kRows * kv_width, 3);
    for (const Subject& subject : attention_subjects()) {
      SCOPED_TRACE(subject.name + " head_dim " + std::to_string(dim));
      const auto backend = subject.make();
      const auto together = run_attention(subject, *backend, c, spans, q, k, v, 0.3F);
      std::vector<float> alone;
      for (const AttentionSpan& span : spans) {
        const auto part = [&](const std::vector<float>& all, std::size_t of_width) {
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(span.q_begin * of_width);
          return std::vector<float>(begin,
                                    begin + static_cast<std::ptrdiff_t>(span.q_count * of_width));
        };
        const auto one = run_attention(subject, *backend, c, pack({span.q_count}), part(q, width),
                                       part(k, kv_width), part(v, kv_width), 0.3F);
        alone.insert(alone.end(), one.begin(), one.end());
      }
      expect_same(alone, together);
    }
  }
}

TEST_F(AttentionOp, RefusesMasksThatAreNotBuiltByName) {
  for (const Subject& subject : attention_subjects()) {
    SCOPED_TRACE(subject.name);
    const auto backend = subject.make();
    const auto spans = backend->make_attention_spans(1);
    const std::vector<AttentionSpan> list = {{0, 1, 0, 1, MaskKind::block_causal}};
    const Error error = error_of([&] { spans->write(list); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.fact().find("block_causal"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dllm::test

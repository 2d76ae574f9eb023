// attention: lengths around the blocks, several sequences, grouped heads, odd head sizes.
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

TEST_F(CudaAttention, AgreesWithOracle) {
  const std::vector<Case> all = {
      {1, 1, 64, {1}},       {2, 2, 128, {3, 70}},  {6, 2, 64, {33, 1, 64}},
      {4, 1, 128, {65, 40}}, {3, 3, 72, {31, 129}}, {5, 5, 20, {10, 7}},
      {8, 2, 8, {200}},      {2, 1, 256, {50}},     {3, 1, 30, {40}}};
  for (const Case& c : all) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    const auto spans = pack(c.lengths);
    const std::uint32_t n = spans.back().q_begin + spans.back().q_count;
    const std::uint32_t width = c.n_heads * c.head_dim;
    const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
    const auto q = random_floats(std::size_t{n} * width, 1, 3);
    const auto k = random_floats(std::size_t{n} * kv_width, 2, 3);
    const auto v = random_floats(std::size_t{n} * kv_width, 3);
    const float scale = 0.25F;
    const Rows want =
        oracle_attention(to_rows(q, width), to_rows(k, kv_width), to_rows(v, kv_width), spans,
                         {c.n_heads, c.n_kv_heads, c.head_dim, scale});
    // Derived in backend_conformance/attention_test.cpp; f32 throughout here too.
    const double bound = c.head_dim * (2.25 * 0.25 * c.head_dim) * 6e-8 / 10 + 3e-6;
    expect_near(run(c, spans, q, k, v, scale), want,
                Rows(want.size(), std::vector<double>(width, bound)));
  }
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
  expect_near(run(c, spans, q, k, v, 0.5F), want, Rows(5, std::vector<double>(32, 3e-6)));
}

TEST_F(CudaAttention, ASequenceIsTheSameAloneAndInCompany) {
  const Case c = {4, 2, 24, {}};
  const auto spans = pack({5, 90, 33});
  const auto q = random_floats(std::size_t{128} * 96, 1, 2);
  const auto k = random_floats(std::size_t{128} * 48, 2, 2);
  const auto v = random_floats(std::size_t{128} * 48, 3);
  const auto together = run(c, spans, q, k, v, 0.3F);
  std::vector<float> alone;
  for (const AttentionSpan& span : spans) {
    const auto part = [&](const std::vector<float>& all, std::size_t width) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(span.q_begin * width);
      return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(span.q_count * width));
    };
    const auto one = run(c, pack({span.q_count}), part(q, 96), part(k, 48), part(v, 48), 0.3F);
    alone.insert(alone.end(), one.begin(), one.end());
  }
  expect_same(alone, together);
}

}  // namespace
}  // namespace dllm::test

// attention against the oracle: lengths around the query and key blocks, several sequences, GQA
// ratios, head sizes that are no multiple of a vector; and its independence of batch and threads.
#include "conformance.hpp"

namespace dllm::test {
namespace {

struct Case {
  std::uint32_t n_heads;
  std::uint32_t n_kv_heads;
  std::uint32_t head_dim;
  std::vector<std::uint32_t> lengths;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {1, 1, 64, {1}},       {2, 2, 128, {3, 70}}, {6, 2, 64, {33, 1, 64}}, {4, 1, 128, {65, 40}},
      {3, 3, 72, {31, 129}}, {5, 5, 20, {10, 7}},  {8, 2, 8, {200}}};
  return all;
}

std::vector<AttentionSpan> pack(const std::vector<std::uint32_t>& lengths) {
  std::vector<AttentionSpan> spans;
  std::uint32_t begin = 0;
  for (const std::uint32_t length : lengths) {
    spans.push_back({begin, length, begin, length, MaskKind::full});
    begin += length;
  }
  return spans;
}

std::vector<float> run(Backend& backend, const Case& c, const std::vector<AttentionSpan>& list,
                       const std::vector<float>& q, const std::vector<float>& k,
                       const std::vector<float>& v, float scale) {
  const std::uint32_t width = c.n_heads * c.head_dim;
  const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
  const auto n = static_cast<std::uint32_t>(q.size() / width);
  const auto n_keys = static_cast<std::uint32_t>(k.size() / kv_width);
  const auto q_buffer = make_filled(backend, q, width);
  const auto k_buffer = make_filled(backend, k, kv_width);
  const auto v_buffer = make_filled(backend, v, kv_width);
  const auto out = backend.make_buffer(n, width);
  const auto spans = backend.make_attention_spans(static_cast<std::uint32_t>(list.size()));
  spans->write(list);
  backend.attention(q_buffer->rows(n), k_buffer->rows(n_keys), v_buffer->rows(n_keys), *spans,
                    {c.n_heads, c.n_kv_heads, c.head_dim, scale}, out->rows(n));
  return read(backend, out->rows(n));
}

TEST(Attention, AgreesWithOracle) {
  for (const std::string& isa : usable_isas()) {
    for (const Case& c : cases()) {
      SCOPED_TRACE(isa + " head_dim " + std::to_string(c.head_dim));
      const auto spans = pack(c.lengths);
      const std::uint32_t n = spans.back().q_begin + spans.back().q_count;
      const std::uint32_t width = c.n_heads * c.head_dim;
      const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
      const auto q = random_floats(std::size_t{n} * width, 1, 3);
      const auto k = random_floats(std::size_t{n} * kv_width, 2, 3);
      const auto v = random_floats(std::size_t{n} * kv_width, 3);
      const float scale = 0.25F;
      auto backend = make_backend({isa});
      const Rows want =
          oracle_attention(to_rows(q, width), to_rows(k, kv_width), to_rows(v, kv_width), spans,
                           {c.n_heads, c.n_kv_heads, c.head_dim, scale});
      // A score sums head_dim products of mean size 2.25 in f32: at the worst head_dim roundings of
      // its size (2.25 * scale * head_dim) by 2^-24; random signs keep a sum within a tenth of
      // that. Results are averages of |v| <= 1 and move by no more than the scores do.
      const double bound = c.head_dim * (2.25 * 0.25 * c.head_dim) * 6e-8 / 10 + 2e-6;
      expect_near(run(*backend, c, spans, q, k, v, scale), want,
                  Rows(want.size(), std::vector<double>(width, bound)));
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  for (const std::string& isa : usable_isas()) {
    SCOPED_TRACE(isa);
    const Case c = {1, 1, 8, {100}};
    const auto spans = pack(c.lengths);
    const auto q = random_floats(800, 1, 1000);
    const auto k = random_floats(800, 2, 1000);
    const auto v = random_floats(800, 3);
    auto backend = make_backend({isa});
    const auto got = run(*backend, c, spans, q, k, v, 1);
    for (const float value : got) {
      EXPECT_TRUE(std::isfinite(value));
      EXPECT_LE(std::abs(value), 1.0F);
    }
  }
}

TEST(Attention, QueriesMayBeFewerThanKeys) {
  for (const std::string& isa : usable_isas()) {
    SCOPED_TRACE(isa);
    const Case c = {2, 1, 16, {}};
    const std::vector<AttentionSpan> spans = {{0, 3, 0, 70, MaskKind::full},
                                              {3, 2, 70, 5, MaskKind::full}};
    const auto q = random_floats(std::size_t{5} * 32, 1);
    const auto k = random_floats(std::size_t{75} * 16, 2);
    const auto v = random_floats(std::size_t{75} * 16, 3);
    auto backend = make_backend({isa});
    const Rows want =
        oracle_attention(to_rows(q, 32), to_rows(k, 16), to_rows(v, 16), spans, {2, 1, 16, 0.5F});
    expect_near(run(*backend, c, spans, q, k, v, 0.5F), want,
                Rows(5, std::vector<double>(32, 2e-6)));
  }
}

TEST(Attention, ASequenceIsTheSameAloneAndInCompanyAndForAnyThreads) {
  const Case c = {4, 2, 24, {}};
  const std::vector<std::uint32_t> lengths = {5, 90, 33};
  const auto spans = pack(lengths);
  const auto q = random_floats(std::size_t{128} * 96, 1, 2);
  const auto k = random_floats(std::size_t{128} * 48, 2, 2);
  const auto v = random_floats(std::size_t{128} * 48, 3);
  for (const std::string& isa : usable_isas()) {
    std::vector<float> first;
    for (const int threads : {1, 2, 7}) {
      SCOPED_TRACE(isa + " threads " + std::to_string(threads));
      auto backend = make_backend({isa, "exact", threads});
      const auto together = run(*backend, c, spans, q, k, v, 0.3F);
      if (first.empty()) first = together;
      expect_same(together, first);
      std::vector<float> alone;
      for (const AttentionSpan& span : spans) {
        const auto part = [&](const std::vector<float>& all, std::size_t width) {
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(span.q_begin * width);
          return std::vector<float>(begin,
                                    begin + static_cast<std::ptrdiff_t>(span.q_count * width));
        };
        const auto one =
            run(*backend, c, pack({span.q_count}), part(q, 96), part(k, 48), part(v, 48), 0.3F);
        alone.insert(alone.end(), one.begin(), one.end());
      }
      expect_same(alone, together);
    }
  }
}

TEST(Attention, RefusesMasksThatAreNotBuiltByName) {
  auto backend = make_backend({"portable"});
  const auto spans = backend->make_attention_spans(1);
  const std::vector<AttentionSpan> list = {{0, 1, 0, 1, MaskKind::block_causal}};
  try {
    spans->write(list);
    FAIL() << "block_causal was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.fact().find("block_causal"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dllm::test

// Attention with AMX tiles against float64: as compiled for any x86-64 processor, and as the
// backend has it where the processor has AVX-512 BF16. Tile instructions are emulated where it has
// none.
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "amx_baseline.hpp"
#include "attention_case.hpp"
#include "attention_work.hpp"
#include "instruction_emulator.hpp"
#include "isa_named.hpp"

namespace dllm::cpu {
namespace {

using dllm::test::AttentionCase;
using dllm::test::Rows;

struct Values {
  std::vector<float> q, k, v;
};

class TileAttention : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!amx_attention_baseline() || !dllm::test::emulate_missing_instructions())
      GTEST_SKIP() << "AMX can be emulated on x86-64 Linux only";
    math_ = amx_attention_baseline();
    if (GetParam() == std::string("any_processor")) return;
    if (!test::isa_named("avx512vnni").brains) GTEST_SKIP() << "this processor has no AVX-512 BF16";
    math_ = amx_attention();
  }
  std::vector<float> attend(const AttentionCase& c, std::span<const AttentionSpan> spans,
                            const Values& x, float scale, unsigned n_threads) const;

  const AttentionMath* math_ = nullptr;
};

std::vector<float> TileAttention::attend(const AttentionCase& c,
                                         std::span<const AttentionSpan> spans, const Values& x,
                                         float scale, unsigned n_threads) const {
  std::vector<float> out(x.q.size());
  Arena arena(n_threads);
  AttentionWork work(*math_, n_threads);
  const std::uint32_t dim = c.head_dim;
  work.run(arena, spans, {c.n_heads, c.n_kv_heads, dim, scale},
           {x.q.data(), c.n_heads * dim, x.k.data(), x.v.data(), c.n_kv_heads * dim, out.data()});
  return out;
}

Values random_values(const AttentionCase& c, std::size_t n) {
  return {dllm::test::random_floats(n * c.n_heads * c.head_dim, 1, 3),
          dllm::test::random_floats(n * c.n_kv_heads * c.head_dim, 2, 3),
          dllm::test::random_floats(n * c.n_kv_heads * c.head_dim, 3)};
}

TEST_P(TileAttention, AgreesWithFloat64) {
  // Lengths around 16, 32, 128 and 256 keys; queries around 16 and 48.
  const std::vector<AttentionCase> all = {
      {1, 1, 64, {1}},     {1, 1, 128, {3, 70}}, {3, 1, 64, {33, 1}}, {2, 2, 72, {31, 49}},
      {5, 5, 20, {10, 7}}, {4, 2, 8, {60}},      {2, 1, 33, {40}},    {1, 1, 8, {257, 128, 1}}};
  for (const AttentionCase& c : all) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    const auto spans = dllm::test::pack(c.lengths);
    const Values x = random_values(c, spans.back().q_begin + spans.back().q_count);
    const AttentionParams params = {c.n_heads, c.n_kv_heads, c.head_dim, 0.25F};
    const Rows q = dllm::test::to_rows(x.q, c.n_heads * c.head_dim);
    const Rows k = dllm::test::to_rows(x.k, c.n_kv_heads * c.head_dim);
    const Rows v = dllm::test::to_rows(x.v, c.n_kv_heads * c.head_dim);
    const Rows size = dllm::test::oracle_attention(q, k, dllm::test::absolute(v), spans, params);
    dllm::test::expect_near(attend(c, spans, x, params.scale, 2),
                            dllm::test::oracle_attention(q, k, v, spans, params),
                            dllm::test::split_tolerance(size, params));
  }
}

TEST_P(TileAttention, IsTheSameForAnyThreadsAndInAnyCompany) {
  const AttentionCase c = {2, 1, 24, {5, 130, 33}};
  const auto spans = dllm::test::pack(c.lengths);
  const Values x = random_values(c, 168);
  const auto want = attend(c, spans, x, 0.3F, 1);
  const tbb::global_control really(tbb::global_control::max_allowed_parallelism, 7);
  for (const unsigned n_threads : {2U, 3U, 7U}) {
    SCOPED_TRACE(std::to_string(n_threads) + " threads");
    dllm::test::expect_same(attend(c, spans, x, 0.3F, n_threads), want);
  }
  std::vector<float> alone(want.size());
  for (const AttentionSpan& span : spans) {
    const auto one = attend(c, {&span, &span + 1}, x, 0.3F, 2);
    const std::size_t width = std::size_t{c.n_heads} * c.head_dim;
    std::copy_n(one.begin() + static_cast<std::ptrdiff_t>(span.q_begin * width),
                span.q_count * width,
                alone.begin() + static_cast<std::ptrdiff_t>(span.q_begin * width));
  }
  dllm::test::expect_same(alone, want);
}

TEST_P(TileAttention, AValueThatIsNotFiniteShowsInEveryQueryOfItsSequence) {
  const AttentionCase c = {1, 1, 16, {40, 40}};
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Values x = random_values(c, 80);
    x.v[5 * 16] = value;
    const auto got = attend(c, dllm::test::pack(c.lengths), x, 1, 2);
    for (std::size_t i = 0; i < got.size(); i += 16)
      EXPECT_EQ(std::isfinite(got[i]), i >= 40 * 16) << i / 16;
  }
}

TEST_P(TileAttention, QueriesThatSeeNoKeyGetZeros) {
  const AttentionCase c = {1, 1, 16, {}};
  const Values x = random_values(c, 3);
  const std::vector<AttentionSpan> spans = {{0, 3, 0, 0, MaskKind::full}};
  dllm::test::expect_same(attend(c, spans, x, 1, 1), std::vector<float>(48, 0));
}

INSTANTIATE_TEST_SUITE_P(CompiledFor, TileAttention, testing::Values("any_processor", "avx512bf16"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace dllm::cpu

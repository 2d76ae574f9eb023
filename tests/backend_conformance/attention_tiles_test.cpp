// Attention with AMX tiles against float64: as compiled for any x86-64 processor, and as the
// backend has it where the processor has AVX-512 BF16. Tile instructions are emulated where it has
// none.
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <array>
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
using dllm::test::Operands;

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
  AttentionWork work(n_threads);
  const std::uint32_t dim = c.head_dim;
  work.run(*math_, arena, spans, {c.n_heads, c.n_kv_heads, dim, scale},
           {x.q.data(), c.n_heads * dim, x.k.data(), x.v.data(), c.n_kv_heads * dim, out.data()});
  return out;
}

Values random_values(const AttentionCase& c, std::size_t n) {
  return {dllm::test::random_floats(n * c.n_heads * c.head_dim, 1, 3),
          dllm::test::random_floats(n * c.n_kv_heads * c.head_dim, 2, 3),
          dllm::test::random_floats(n * c.n_kv_heads * c.head_dim, 3)};
}

Operands operands(const AttentionCase& c, const Values& x) {
  const std::uint32_t kv_width = c.n_kv_heads * c.head_dim;
  return {dllm::test::to_rows(x.q, c.n_heads * c.head_dim), dllm::test::to_rows(x.k, kv_width),
          dllm::test::to_rows(x.v, kv_width)};
}

TEST_P(TileAttention, AgreesWithFloat64) {
  // Lengths around 16, 32, 128 and 256 keys; queries around 16, 32, 48 and 64.
  const std::vector<AttentionCase> all = {
      {1, 1, 64, {1}},     {1, 1, 128, {3, 70}}, {3, 1, 64, {33, 1, 65}}, {2, 2, 72, {31, 49}},
      {5, 5, 20, {10, 7}}, {4, 2, 8, {60}},      {2, 1, 33, {40}},        {1, 1, 8, {257, 128, 1}}};
  for (const AttentionCase& c : all) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    const auto spans = dllm::test::pack(c.lengths);
    const Values x = random_values(c, spans.back().q_begin + spans.back().q_count);
    const AttentionParams params = {c.n_heads, c.n_kv_heads, c.head_dim, 0.25F};
    dllm::test::expect_as_brains(attend(c, spans, x, params.scale, 2), operands(c, x), spans,
                                 params);
  }
}

TEST_P(TileAttention, AgreesWithFloat64WhereScoresRise) {
  // From block to block of 128 keys by more than a weight may exceed 1 (2^8), and by less; of the
  // last ten queries by more than f32 holds.
  const AttentionCase c = {1, 1, 32, {}};
  const std::vector<AttentionSpan> spans = {{0, 20, 0, 400, MaskKind::full}};
  Values x = random_values(c, 400);
  x.q.resize(std::size_t{20} * c.head_dim);
  for (std::size_t i = 0; i < x.k.size(); ++i)
    x.k[i] *= std::array{0.1F, 0.2F, 1.0F, 4.0F}[i / c.head_dim / 128];
  for (std::size_t i = std::size_t{10} * c.head_dim; i < x.q.size(); ++i) x.q[i] *= 20;
  const auto want =
      dllm::test::brain_attention(operands(c, x), spans, {c.n_heads, c.n_kv_heads, 32, 0.25F});
  dllm::test::expect_near(attend(c, spans, x, 0.25F, 2), want.want, want.tolerance);
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

TEST(ChooseAttention, FollowsTheProducts) {
  const Kernels& table = *portable_kernels();
  const AttentionMath tiles = {};
  const Isa isa = {"amx", &table, nullptr, nullptr, &tiles, true};
  const Isa without = {"avx512vnni", &table, nullptr, nullptr, nullptr, true};
  const AttentionMath* const f32 = &table.rows.attention;
  EXPECT_EQ(&choose_attention(isa, ProductMode::fast, false), &tiles);
  EXPECT_EQ(&choose_attention(isa, ProductMode::fast, true), f32);
  EXPECT_EQ(&choose_attention(isa, ProductMode::exact, false), f32);
  EXPECT_EQ(&choose_attention(isa, ProductMode::f32, true), f32);
  EXPECT_EQ(&choose_attention(without, ProductMode::fast, false), f32);
}

INSTANTIATE_TEST_SUITE_P(CompiledFor, TileAttention, testing::Values("any_processor", "avx512bf16"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace dllm::cpu

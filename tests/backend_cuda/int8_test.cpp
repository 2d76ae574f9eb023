// products=int8: held to the arithmetic it promises, with weights and inputs rounded by the
// definition (largest value of 128 / 127), and to the true product with the error it states.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cuda_support.hpp"

namespace dllm::test {
namespace {

Rows sum_of(Rows a, const Rows& b) {
  for (std::size_t r = 0; r < a.size(); ++r)
    for (std::size_t o = 0; o < a[r].size(); ++o) a[r][o] += b[r][o];
  return a;
}

// Of 11 bits, so that packing them first loses nothing.
Rows short_weights(std::uint32_t n_rows, std::uint32_t n_cols, std::uint64_t seed) {
  auto values = random_floats(std::size_t{n_rows} * n_cols, seed);
  for (float& value : values) value = std::round(value * 1024) / 1024;
  return to_rows(values, n_cols);
}

class CudaInt8 : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    backend_ = make_products("int8");
    if (!backend_) GTEST_SKIP() << "the GPU is older";
  }
};

// Rows around the tiles of 32, 64, 96
// and 160, outputs around 64 and 128, inputs that fill no block of 128, that split, and whose
// stages are filled again.
TEST_F(CudaInt8, NormLinearIsTheProductOfBothRounded) {
  struct Case {
    std::uint32_t n_rows, n_in, n_out;
  };
  for (const Case& each : {Case{1, 64, 5},
                           {3, 128, 64},
                           {33, 200, 65},
                           {65, 1024, 130},
                           {97, 1152, 300},
                           {161, 512, 129},
                           {330, 96, 16},
                           {160, 8192, 64}}) {
    SCOPED_TRACE(std::to_string(each.n_rows) + " rows of " + std::to_string(each.n_in));
    WeightFile file;
    file.add_matrix("w", short_weights(each.n_out, each.n_in, 1));
    file.add_vector("norm", random_floats(each.n_in, 4, 2));
    const auto inputs = random_floats(std::size_t{each.n_rows} * each.n_in, 5, 3);
    const Rows normed =
        oracle_norm(to_rows(inputs, each.n_in), file.vector("norm"), static_cast<double>(kEps));
    const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
    const auto x = fill(inputs, each.n_in);
    const auto out = backend().make_buffer(each.n_rows, each.n_out);
    for (const WeightRole role : {WeightRole::head_split, WeightRole::column_split}) {
      const std::size_t group = role == WeightRole::column_split ? 256 : 128;
      SCOPED_TRACE("a step for " + std::to_string(group) + " weights");
      const auto w = file.import_to(backend(), "w", role);
      const std::vector<Projection> projections = {{w.get(), nullptr, out->rows(each.n_rows)}};
      backend().norm_linear(x->rows(each.n_rows), norm.get(), kEps, projections);
      const auto got = read(out->rows(each.n_rows));
      const Rows want =
          oracle_linear(rounded_to_int8(file.decoded("w"), group), rounded_to_int8(normed));
      EXPECT_LT(relative_error(got, want), each.n_rows < 33 ? 10 * kBorderError : kBorderError);
      EXPECT_LT(relative_error(got, oracle_linear(file.decoded("w"), normed)), kInt8Error);
    }
  }
}

// Values that are whole numbers of steps, the largest of every 128 being 127: codes are what they
// were made from, and results what the definition says, to the last bit (f32, blocks ascending).
struct WholeCodes {
  std::uint32_t n_cols;
  std::vector<int> codes;
  std::vector<float> scales;  // of every 128, powers of two

  WholeCodes(std::uint32_t n_rows, std::uint32_t cols, unsigned seed) : n_cols(cols) {
    const std::uint32_t blocks = (cols + 127) / 128;
    const auto drawn = random_floats(std::size_t{n_rows} * cols, seed);
    const auto exponents = random_floats(std::size_t{n_rows} * blocks, seed + 1, 3);
    for (std::size_t i = 0; i < drawn.size(); ++i)
      codes.push_back(i % cols % 128 == 77 ? -127 : static_cast<int>(drawn[i] * 127));
    for (const float each : exponents) scales.push_back(std::ldexp(1.0F, static_cast<int>(each)));
  }
  std::uint32_t n_blocks() const { return (n_cols + 127) / 128; }
  int code(std::uint32_t row, std::uint32_t k) const {
    return codes[std::size_t{row} * n_cols + k];
  }
  float scale(std::uint32_t row, std::uint32_t block) const {
    return scales[std::size_t{row} * n_blocks() + block];
  }
  std::vector<float> values(float factor) const {
    std::vector<float> all(codes.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<float>(codes[i]) * factor *
               scales[i / n_cols * n_blocks() + i % n_cols / 128];
    return all;
  }
};

// Of up to 896 inputs, which are not split. The last two fill an H200 with tiles of 256 weight
// rows.
TEST_F(CudaInt8, ProductsOfWholeCodesAreExact) {
  struct Case {
    std::uint32_t n_rows, n_in, n_out;
  };
  const float norm_of_one = std::ldexp(1.0F, 50);  // with eps 2^100: a norm that changes nothing
  for (const Case& each : {Case{1, 128, 5},
                           {31, 896, 64},
                           {64, 208, 130},
                           {170, 640, 200},
                           {256, 256, 16640},
                           {320, 128, 16384}}) {
    SCOPED_TRACE(std::to_string(each.n_rows) + " rows of " + std::to_string(each.n_in));
    const WholeCodes w(each.n_out, each.n_in, 1);
    const WholeCodes x(each.n_rows, each.n_in, 3);
    WeightFile file;
    file.add_matrix("w", to_rows(w.values(1.0F / 128), each.n_in));
    file.add_vector("norm", std::vector<float>(each.n_in, norm_of_one));
    const auto weight = file.import_to(backend(), "w", WeightRole::head_split);
    const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
    const auto inputs = fill(x.values(1), each.n_in);
    std::vector<float> got(std::size_t{each.n_rows} * each.n_out);
    backend().logits(inputs->rows(each.n_rows), *norm, norm_of_one * norm_of_one, *weight, got);
    std::vector<float> want;
    const auto step = [](float scale) { return 127 * scale * (1.0F / 127); };
    for (std::uint32_t r = 0; r < each.n_rows; ++r)
      for (std::uint32_t o = 0; o < each.n_out; ++o) {
        float sum = 0;
        for (std::uint32_t b = 0; b < w.n_blocks(); ++b) {
          int whole = 0;
          for (std::uint32_t k = 128 * b; k < std::min(each.n_in, 128 * (b + 1)); ++k)
            whole += w.code(o, k) * x.code(r, k);
          sum =
              std::fmaf(static_cast<float>(whole) * step(w.scale(o, b)), step(x.scale(r, b)), sum);
        }
        want.push_back(sum / 128);
      }
    expect_same(got, want);
  }
}

class CudaInt8Types : public CudaInt8, public testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, CudaInt8Types, testing::ValuesIn(all_types()), type_name);

TEST_P(CudaInt8Types, LinearResidualAddsToWhatIsThere) {
  constexpr std::uint32_t kRows = 40;
  constexpr std::uint32_t kOut = 150;
  constexpr std::uint32_t kIn = 2048;
  WeightFile file;
  file.add("w", GetParam(), kOut, kIn, 1);
  file.add_vector("bias", random_floats(kOut, 3));
  const auto values = random_floats(std::size_t{kRows} * kIn, 5, 3);
  const auto before = random_floats(std::size_t{kRows} * kOut, 6);
  const Rows want =
      sum_of(oracle_linear(file.decoded("w"), to_rows(values, kIn), file.vector("bias")),
             to_rows(before, kOut));
  const auto w = file.import_to(backend(), "w", WeightRole::row_split);
  const auto bias = file.import_to(backend(), "bias", WeightRole::replicated);
  const auto x = fill(values, kIn);
  const auto residual = fill(before, kOut);
  backend().linear_residual(x->rows(kRows), *w, bias.get(), residual->rows(kRows));
  EXPECT_LT(relative_error(read(residual->rows(kRows)), want), kInt8Error);
}

TEST_P(CudaInt8Types, GatedMlpStaysWithinTheErrorOfItsThreeProducts) {
  constexpr std::uint32_t kRows = 21;
  constexpr std::uint32_t kWidth = 256;
  const FeedForward layer(backend(), GetParam(), kWidth, 2 * kWidth);
  const auto values = random_floats(std::size_t{kRows} * kWidth, 5, 3);
  EXPECT_LT(relative_error(layer.added(values), layer.oracle_added(values)), 4 * kInt8Error);
}

// Held to what is promised of each of its roundings: inputs, weights, silu(gate) * up.
TEST_F(CudaInt8, GatedMlpIsTheProductOfAllRounded) {
  constexpr std::uint32_t kWidth = 256;
  for (const std::uint32_t ffn : {128U, 320U, 5000U}) {
    for (const std::uint32_t n_rows : {1U, 40U, 161U}) {
      SCOPED_TRACE(std::to_string(n_rows) + " rows, " + std::to_string(ffn));
      const FeedForward layer(backend(), short_weights(ffn, kWidth, 1),
                              short_weights(ffn, kWidth, 2), short_weights(kWidth, ffn, 3));
      const auto inputs = random_floats(std::size_t{n_rows} * kWidth, 5, 3);
      const Rows hidden = oracle_gated(rounded_to_int8(layer.gate_values(), 256),
                                       rounded_to_int8(layer.up_values(), 256),
                                       rounded_to_int8(layer.oracle_normed(inputs), 256));
      const Rows want =
          oracle_linear(rounded_to_int8(layer.down_values()), rounded_to_int8(hidden));
      EXPECT_LT(relative_error(layer.added(inputs), want), 10 * kBorderError);
    }
  }
}

TEST_F(CudaInt8, WhatIsNotFiniteInAFeedForwardLayerShows) {
  constexpr std::uint32_t kWidth = 128;
  constexpr std::uint32_t kFfn = 200;
  expect_what_is_not_finite_to_show(backend(), kWidth, [&](std::optional<float> bad) {
    Rows gate = short_weights(kFfn, kWidth, 1);
    if (bad) gate[150][3] = static_cast<double>(*bad);
    return FeedForward(backend(), gate, short_weights(kFfn, kWidth, 2),
                       short_weights(kWidth, kFfn, 3));
  });
}

// Gate and up of rows that fill no block of a tile.
TEST_F(CudaInt8, FeedForwardLayersOfAnyWidthAgreeWithTheOracle) {
  constexpr std::uint32_t kWidth = 96;
  for (const std::uint32_t ffn : {5U, 50U, 200U}) {
    const FeedForward layer(backend(), DType::f32, kWidth, ffn);
    for (const std::uint32_t n_rows : {1U, 70U, 165U}) {
      SCOPED_TRACE(std::to_string(n_rows) + " rows, " + std::to_string(ffn));
      const auto values = random_floats(std::size_t{n_rows} * kWidth, 5, 3);
      EXPECT_LT(relative_error(layer.added(values), layer.oracle_added(values)), 5 * kInt8Error);
    }
  }
}

class CudaInt8Rows : public CudaInt8Types {};
INSTANTIATE_TEST_SUITE_P(Types, CudaInt8Rows, testing::Values(DType::q4_k, DType::q6_k), type_name);

TEST_P(CudaInt8Rows, AreTheSameAloneInCompanyAndInEveryRun) {
  constexpr std::uint32_t kRows = 170;
  constexpr std::uint32_t kWidth = 512;
  const FeedForward layer(backend(), GetParam(), kWidth, 2 * kWidth);
  const auto values = random_floats(std::size_t{kRows} * kWidth, 5, 3);
  const auto run = [&](std::uint32_t n) {
    const auto x = fill({values.begin(), values.begin() + std::ptrdiff_t{n} * kWidth}, kWidth);
    layer.run(x->rows(n));
    return read(x->rows(n));
  };
  const std::vector<float> together = run(kRows);
  for (const std::uint32_t n : {1U, 33U, 100U, kRows}) {
    SCOPED_TRACE("rows " + std::to_string(n));
    expect_same(run(n), {together.begin(), together.begin() + std::ptrdiff_t{n} * kWidth});
  }
}

// With many rows, tiles take all parts of a narrow matrix's inputs themselves.
TEST_P(CudaInt8Rows, ManyGiveWhatFewGive) {
  constexpr std::uint32_t kIn = 4096;
  constexpr std::uint32_t kOut = 512;
  constexpr std::uint32_t kRows = 1300;
  const auto values = random_floats(std::size_t{kRows} * kIn, 5, 3);
  WeightFile file;
  file.add("w", GetParam(), kOut, kIn, 1);
  const auto w = file.import_to(backend(), "w", WeightRole::row_split);
  const auto run = [&](std::uint32_t n) {
    const auto x = fill({values.begin(), values.begin() + std::ptrdiff_t{n} * kIn}, kIn);
    const auto out = fill(std::vector<float>(std::size_t{n} * kOut, 0.5F), kOut);
    backend().linear_residual(x->rows(n), *w, nullptr, out->rows(n));
    return read(out->rows(n));
  };
  const std::vector<float> many = run(kRows);
  for (const std::uint32_t n : {3U, 150U})
    expect_same(run(n), {many.begin(), many.begin() + std::ptrdiff_t{n} * kOut});
}

TEST_P(CudaInt8Rows, OfZerosGiveZeroAndWhatIsNotFiniteShows) {
  constexpr std::uint32_t kIn = 256;
  constexpr std::uint32_t kOut = 32;
  WeightFile file;
  file.add("w", GetParam(), kOut, kIn, 1);
  const auto w = file.import_to(backend(), "w");
  std::vector<float> values(std::size_t{4} * kIn, 0.0F);
  values[kIn + 40] = std::numeric_limits<float>::infinity();
  values[2 * kIn + 40] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < kIn; ++i) values[3 * kIn + i] = 1e-32F;  // below what a step can be
  const auto x = fill(values, kIn);
  const auto out = backend().make_buffer(4, kOut);
  const std::vector<Projection> projections = {{w.get(), nullptr, out->rows(4)}};
  backend().norm_linear(x->rows(4), nullptr, 0, projections);
  const std::vector<float> got = test::read(backend(), out->rows(4));
  for (std::uint32_t o = 0; o < kOut; ++o) {
    for (const std::uint32_t row : {0U, 3U}) EXPECT_EQ(got[row * kOut + o], 0);
    for (const std::uint32_t row : {1U, 2U}) EXPECT_TRUE(std::isnan(got[row * kOut + o]));
  }
}

TEST_F(CudaInt8, AWeightThatIsNaNShows) {
  constexpr std::uint32_t kIn = 256;
  constexpr std::uint32_t kOut = 70;
  Rows weights = to_rows(random_floats(std::size_t{kOut} * kIn, 1), kIn);
  weights[7][130] = std::numeric_limits<double>::quiet_NaN();
  WeightFile file;
  file.add_matrix("w", weights);
  const auto w = file.import_to(backend(), "w");
  const auto x = fill(random_floats(kIn, 5), kIn);
  const auto out = backend().make_buffer(1, kOut);
  const std::vector<Projection> projections = {{w.get(), nullptr, out->rows(1)}};
  backend().norm_linear(x->rows(1), nullptr, 0, projections);
  const std::vector<float> got = test::read(backend(), out->rows(1));
  EXPECT_TRUE(std::any_of(got.begin(), got.end(), [](float value) { return std::isnan(value); }));
}

// Statistics of some rows are those of the logits of all, wherever they begin.
TEST_P(CudaInt8Rows, OfTheHeadMayBeginAnywhere) {
  constexpr std::uint32_t kIn = 256;
  constexpr std::uint32_t kVocab = 300;
  constexpr std::uint32_t kRows = 12;
  WeightFile file;
  file.add("output", GetParam(), kVocab, kIn, 1);
  file.add_vector("norm", random_floats(kIn, 4, 2));
  const auto values = random_floats(std::size_t{kRows} * kIn, 5, 3);
  const auto output = file.import_to(backend(), "output");
  const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
  const auto x = fill(values, kIn);
  std::vector<float> logits(std::size_t{kRows} * kVocab);
  backend().logits(x->rows(kRows), *norm, kEps, *output, logits);
  const Rows normed =
      oracle_norm(to_rows(values, kIn), file.vector("norm"), static_cast<double>(kEps));
  EXPECT_LT(relative_error(logits, oracle_linear(file.decoded("output"), normed)), 2 * kInt8Error);
  const std::vector<std::uint32_t> positions = {0, 1, 2, 3, 4};
  StatsRequest request;
  request.first_row = 5;
  request.positions = positions;
  request.n_tokens = kVocab;
  request.allow_all = true;
  request.want = kStatArgmax;
  HeadStats stats;
  stats.reserve(kRows, 0, 0);
  backend().head_stats(x->rows(kRows), *norm, kEps, *output, {&request, 1}, stats);
  for (std::uint32_t row = 5; row < 10; ++row) {
    const auto begin = logits.begin() + std::ptrdiff_t{row} * kVocab;
    EXPECT_EQ(stats.argmax[row], std::max_element(begin, begin + kVocab) - begin);
  }
}

// Many tiles, which a block takes one after the other.
TEST_P(CudaInt8Rows, OfWideMatricesAreTheSameInManyTiles) {
  constexpr std::uint32_t kIn = 256;
  constexpr std::uint32_t kWide = 4104;
  constexpr std::uint32_t kRows = 1300;
  constexpr std::uint32_t kFew = 3;
  WeightFile file;
  file.add("gate", GetParam(), kWide, kIn, 1);
  file.add_vector("norm", random_floats(kIn, 4, 1));
  const auto values = random_floats(std::size_t{kRows} * kIn, 5, 3);
  const auto gate = file.import_to(backend(), "gate");
  const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
  const auto logits = [&](std::uint32_t n) {
    const auto x = fill({values.begin(), values.begin() + std::ptrdiff_t{n} * kIn}, kIn);
    std::vector<float> out(std::size_t{n} * kWide);
    backend().logits(x->rows(n), *norm, kEps, *gate, out);
    return out;
  };
  const std::vector<float> many = logits(kRows);
  const std::vector<float> few = logits(kFew);
  expect_same({many.begin(), many.begin() + std::ptrdiff_t{kFew} * kWide}, few);
  const std::vector<float> first = {values.begin(), values.begin() + std::ptrdiff_t{kFew} * kIn};
  const Rows normed =
      oracle_norm(to_rows(first, kIn), file.vector("norm"), static_cast<double>(kEps));
  EXPECT_LT(relative_error(few, oracle_linear(file.decoded("gate"), normed)), 2 * kInt8Error);
}

TEST_P(CudaInt8Rows, OfWideFeedForwardLayersAreTheSameInManyTiles) {
  constexpr std::uint32_t kRows = 1300;
  constexpr std::uint32_t kWidth = 256;
  const FeedForward layer(backend(), GetParam(), kWidth, 16 * kWidth);
  const auto values = random_floats(std::size_t{kRows} * kWidth, 5, 3);
  const auto run = [&](std::uint32_t n) {
    const auto x = fill({values.begin(), values.begin() + std::ptrdiff_t{n} * kWidth}, kWidth);
    layer.run(x->rows(n));
    return read(x->rows(n));
  };
  const std::vector<float> many = run(kRows);
  for (const std::uint32_t n : {3U, 150U})
    expect_same(run(n), {many.begin(), many.begin() + std::ptrdiff_t{n} * kWidth});
}

}  // namespace
}  // namespace dllm::test

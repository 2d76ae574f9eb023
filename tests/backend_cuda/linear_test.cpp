// norm_linear, linear_residual and gated_mlp, for every weight type.
#include <string>

#include "cuda_support.hpp"

namespace dllm::test {
namespace {

// A weight's scale, minimum and value and an input are rounded to 11 bits: 2^-12 each in the mean.
// A handful of outputs, where sums cancel, can be further off; the bound per element covers those.
constexpr double kMeanError = 6e-4;

class CudaLinear : public CudaTest, public testing::WithParamInterface<DType> {
 protected:
  std::uint32_t block() const { return dtype_info(GetParam()).block_size; }
  std::uint32_t inputs(std::uint32_t blocks) const {
    return block() == 1 ? 33 * blocks : block() * blocks;
  }
};

INSTANTIATE_TEST_SUITE_P(Types, CudaLinear, testing::ValuesIn(all_types()), type_name);

struct Shape {
  std::uint32_t n_rows;
  std::uint32_t blocks;
  std::uint32_t n_out;
};

// Rows around the tiles of 32, 96 and 160, outputs around 16 and 128, inputs that split.
TEST_P(CudaLinear, NormLinearAgreesWithOracle) {
  for (const Shape& shape :
       {Shape{1, 1, 5}, {3, 3, 32}, {33, 2, 70}, {97, 5, 129}, {161, 2, 300}, {330, 9, 16}}) {
    SCOPED_TRACE("rows " + std::to_string(shape.n_rows));
    const std::uint32_t n_in = inputs(shape.blocks);
    WeightFile file;
    file.add("a", GetParam(), shape.n_out, n_in, 1);
    file.add("b", GetParam(), shape.n_out + 3, n_in, 2);
    file.add_vector("bias", random_floats(shape.n_out, 3));
    file.add_vector("norm", random_floats(n_in, 4, 2));
    const auto values = random_floats(std::size_t{shape.n_rows} * n_in, 5, 3);
    const Rows normed =
        oracle_norm(to_rows(values, n_in), file.vector("norm"), static_cast<double>(kEps));
    const auto a = file.import_to(backend(), "a");
    const auto b = file.import_to(backend(), "b");
    const auto bias = file.import_to(backend(), "bias", WeightRole::replicated);
    const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
    const auto x = fill(values, n_in);
    const auto out_a = backend().make_buffer(shape.n_rows, shape.n_out);
    const auto out_b = backend().make_buffer(shape.n_rows, shape.n_out + 3);
    const std::vector<Projection> projections = {{a.get(), bias.get(), out_a->rows(shape.n_rows)},
                                                 {b.get(), nullptr, out_b->rows(shape.n_rows)}};
    backend().norm_linear(x->rows(shape.n_rows), norm.get(), kEps, projections);
    const auto got_a = read(out_a->rows(shape.n_rows));
    const auto got_b = read(out_b->rows(shape.n_rows));
    const Rows want_a = oracle_linear(file.decoded("a"), normed, file.vector("bias"));
    const Rows want_b = oracle_linear(file.decoded("b"), normed);
    expect_near(got_a, want_a, half_tolerance(file.decoded("a"), normed));
    expect_near(got_b, want_b, half_tolerance(file.decoded("b"), normed));
    if (shape.n_rows >= 33) {
      EXPECT_LT(relative_error(got_b, want_b), kMeanError);
    }
  }
}

TEST_P(CudaLinear, LinearResidualAddsToWhatIsThere) {
  constexpr std::uint32_t kRows = 40;
  constexpr std::uint32_t kOut = 150;
  const std::uint32_t n_in = inputs(4);
  WeightFile file;
  file.add("w", GetParam(), kOut, n_in, 1);
  file.add_vector("bias", random_floats(kOut, 3));
  const auto values = random_floats(std::size_t{kRows} * n_in, 5, 3);
  const auto before = random_floats(std::size_t{kRows} * kOut, 6);
  const Rows x_rows = to_rows(values, n_in);
  Rows want = oracle_linear(file.decoded("w"), x_rows, file.vector("bias"));
  for (std::size_t i = 0; i < before.size(); ++i)
    want[i / kOut][i % kOut] += static_cast<double>(before[i]);
  const auto w = file.import_to(backend(), "w", WeightRole::row_split);
  const auto bias = file.import_to(backend(), "bias", WeightRole::replicated);
  const auto x = fill(values, n_in);
  const auto residual = fill(before, kOut);
  backend().linear_residual(x->rows(kRows), *w, bias.get(), residual->rows(kRows));
  expect_near(read(residual->rows(kRows)), want, half_tolerance(file.decoded("w"), x_rows));
}

TEST_P(CudaLinear, GatedMlpAgreesWithOracle) {
  constexpr std::uint32_t kRows = 21;
  const std::uint32_t width = block() == 1 ? 50 : block() == 32 ? 96 : 256;
  const FeedForward layer(backend(), GetParam(), width, 2 * width);
  const auto values = random_floats(std::size_t{kRows} * width, 5, 3);
  EXPECT_LT(relative_error(layer.added(values), layer.oracle_added(values)), 3 * kMeanError);
}

// Operations in a chain: rows alone, in company, and again. Of the two widths one is narrow enough
// that gate and up are multiplied where they are made (Hopper), the other has its inputs split.
TEST_P(CudaLinear, RowsAreTheSameAloneInCompanyAndInEveryRun) {
  constexpr std::uint32_t kRows = 170;
  for (const std::uint32_t width : {256U, 512U}) {
    SCOPED_TRACE("width " + std::to_string(width));
    const FeedForward layer(backend(), GetParam(), width, 2 * width);
    const auto values = random_floats(std::size_t{kRows} * width, 5, 3);
    const auto run = [&](const std::vector<float>& rows) {
      const auto n = static_cast<std::uint32_t>(rows.size() / width);
      const auto x = fill(rows, width);
      const auto projected = backend().make_buffer(n, 2 * width);
      const std::vector<Projection> projections = {{layer.gate.get(), nullptr, projected->rows(n)}};
      layer.run(x->rows(n));
      backend().norm_linear(x->rows(n), layer.norm.get(), kEps, projections);
      backend().linear_residual(projected->rows(n), *layer.down, nullptr, x->rows(n));
      return read(x->rows(n));
    };
    const std::vector<float> together = run(values);
    expect_same(run(values), together);
    for (const std::uint32_t count : {1U, 33U, 100U}) {
      SCOPED_TRACE("rows " + std::to_string(count));
      const auto n = std::ptrdiff_t{count} * width;
      expect_same(run({values.begin(), values.begin() + n}),
                  {together.begin(), together.begin() + n});
    }
  }
}

// With many rows, tiles take all parts of a narrow matrix's inputs themselves.
class CudaLinearTiles : public CudaTest {};

TEST_F(CudaLinearTiles, ManyRowsGiveWhatFewGive) {
  constexpr std::uint32_t kIn = 4096;
  constexpr std::uint32_t kOut = 2048;
  constexpr std::uint32_t kRows = 1300;
  constexpr std::uint32_t kChecked = 3;
  const auto values = random_floats(std::size_t{kRows} * kIn, 5, 3);
  for (const DType type : {DType::q4_k, DType::q6_k}) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    WeightFile file;
    file.add("w", type, kOut, kIn, 1);
    const auto w = file.import_to(backend(), "w", WeightRole::row_split);
    const auto run = [&](std::uint32_t n) {
      const auto x = fill({values.begin(), values.begin() + std::ptrdiff_t{n} * kIn}, kIn);
      const auto out = fill(std::vector<float>(std::size_t{n} * kOut, 0.5F), kOut);
      backend().linear_residual(x->rows(n), *w, nullptr, out->rows(n));
      return read(out->rows(n));
    };
    const std::vector<float> many = run(kRows);
    for (const std::uint32_t n : {kChecked, 150U, 600U})
      expect_same(run(n), {many.begin(), many.begin() + std::ptrdiff_t{n} * kOut});
    const Rows x_rows = to_rows(
        std::vector<float>{values.begin(), values.begin() + std::ptrdiff_t{kChecked} * kIn}, kIn);
    Rows want = oracle_linear(file.decoded("w"), x_rows);
    for (auto& row : want)
      for (double& value : row) value += 0.5;
    const std::vector<float> few = {many.begin(), many.begin() + std::ptrdiff_t{kChecked} * kOut};
    expect_near(few, want, half_tolerance(file.decoded("w"), x_rows));
    EXPECT_LT(relative_error(few, want), kMeanError);
  }
}

// A block's ring of stages goes round several times: every stage is filled again while others are
// read. Small, so that racecheck is through with it in seconds.
TEST_F(CudaLinearTiles, StagesAreFilledAgain) {
  constexpr std::uint32_t kIn = 8192;
  constexpr std::uint32_t kOut = 64;
  constexpr std::uint32_t kRows = 160;
  const auto values = random_floats(std::size_t{kRows} * kIn, 5, 3);
  const Rows x_rows = to_rows(values, kIn);
  const auto x = fill(values, kIn);
  const auto out = backend().make_buffer(kRows, kOut);
  for (const DType type : {DType::q4_k, DType::q6_k, DType::q8_0, DType::f16}) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    WeightFile file;
    file.add("w", type, kOut, kIn, 1);
    const auto w = file.import_to(backend(), "w");
    const std::vector<Projection> projections = {{w.get(), nullptr, out->rows(kRows)}};
    backend().norm_linear(x->rows(kRows), nullptr, 0, projections);
    const auto got = read(out->rows(kRows));
    const Rows want = oracle_linear(file.decoded("w"), x_rows);
    expect_near(got, want, half_tolerance(file.decoded("w"), x_rows));
    EXPECT_LT(relative_error(got, want), kMeanError);
  }
}

// Tiles of 256 input rows are taken where matrices have many rows, too: two of them, the second
// full or not, against the same rows 64 at a time. Of those, 592 blocks of weight rows make several
// tiles a multiprocessor, not all of three.
TEST_F(CudaLinearTiles, ManyRowsOfTallMatricesGiveWhatFewGive) {
  constexpr std::uint32_t kWidth = 256;
  constexpr std::uint32_t kMost = 512;
  constexpr std::uint32_t kFew = 64;
  const auto values = random_floats(std::size_t{kMost} * kWidth, 5, 3);
  struct Case {
    DType type;
    std::uint32_t ffn;
  };
  for (const auto [type, ffn] :
       {Case{DType::q4_k, 12288}, Case{DType::q6_k, 12288}, Case{DType::q4_k, 18944}}) {
    SCOPED_TRACE(std::string(dtype_name(type)) + " " + std::to_string(ffn));
    const FeedForward layer(backend(), type, kWidth, ffn);
    WeightFile file;
    file.add("tall", type, 2 * ffn, kWidth, 4);
    const auto tall = file.import_to(backend(), "tall");
    // Rows [first, first + n): through the gated layer, then through `tall`.
    const auto run = [&](std::uint32_t first, std::uint32_t n) {
      const auto begin = values.begin() + std::ptrdiff_t{first} * kWidth;
      const auto x = fill({begin, begin + std::ptrdiff_t{n} * kWidth}, kWidth);
      std::vector<float> out(std::size_t{n} * 2 * ffn);
      layer.run(x->rows(n));
      backend().logits(x->rows(n), *layer.norm, kEps, *tall, out);
      return out;
    };
    std::vector<float> few;
    for (std::uint32_t first = 0; first < kMost; first += kFew) {
      const std::vector<float> part = run(first, kFew);
      few.insert(few.end(), part.begin(), part.end());
    }
    for (const std::uint32_t n : {kMost - 9, kMost}) {
      SCOPED_TRACE("rows " + std::to_string(n));
      expect_same(run(0, n), {few.begin(), few.begin() + std::ptrdiff_t{n} * 2 * ffn});
    }
    const std::vector<float> first = {values.begin(), values.begin() + kWidth};
    std::vector<float> hidden = first;
    const Rows added = layer.oracle_added(first);
    for (std::uint32_t i = 0; i < kWidth; ++i) hidden[i] += static_cast<float>(added[0][i]);
    few.resize(2 * ffn);
    EXPECT_LT(relative_error(few, oracle_linear(file.decoded("tall"), layer.oracle_normed(hidden))),
              4 * kMeanError);
  }
}

class CudaLinearRange : public CudaTest {};

// A long row of gate and of up: most products are far below the bound that their scale is made from
// and keep their precision.
TEST_F(CudaLinearRange, ProductsOfGateAndUpFarBelowTheirBoundKeepTheirPrecision) {
  constexpr std::uint32_t kWidth = 256;
  constexpr std::uint32_t kFfn = 200;
  Rows weights[2];
  for (std::uint32_t i = 0; i < 2; ++i)
    weights[i] = to_rows(random_floats(std::size_t{kFfn} * kWidth, 1 + i), kWidth);
  for (std::uint32_t i = 0; i < 2; ++i) {
    for (double& value : weights[i][7 + i]) value *= 100;
    for (double& value : weights[1 - i][7 + i]) value = 0;  // that product is 0
  }
  const Rows down = to_rows(random_floats(std::size_t{kWidth} * kFfn, 3, 0.1F), kFfn);
  const FeedForward layer(backend(), weights[0], weights[1], down);
  const auto values = random_floats(kWidth, 7);
  EXPECT_LT(relative_error(layer.added(values), layer.oracle_added(values)), 3 * kMeanError);
}

// Inputs and weights beyond binary16's range at both ends.
TEST_F(CudaLinearRange, LargeAndSmallRowsKeepTheirPrecision) {
  constexpr std::uint32_t kIn = 96;
  constexpr std::uint32_t kOut = 40;
  for (const float weight_scale : {1e-9F, 1.0F, 1e3F}) {
    WeightFile file;
    Rows weights = to_rows(random_floats(std::size_t{kOut} * kIn, 1, weight_scale), kIn);
    file.add_matrix("w", weights);
    std::vector<float> values;
    for (const float scale : {1e-12F, 1e-3F, 1.0F, 1e6F})  // reading back takes up to about 1e12
      for (const float value : random_floats(kIn, 7, scale)) values.push_back(value);
    const auto w = file.import_to(backend(), "w");
    const auto x = fill(values, kIn);
    const auto out = backend().make_buffer(4, kOut);
    const std::vector<Projection> projections = {{w.get(), nullptr, out->rows(4)}};
    backend().norm_linear(x->rows(4), nullptr, 0, projections);
    const auto got = read(out->rows(4));
    const Rows want = oracle_linear(file.decoded("w"), to_rows(values, kIn));
    for (std::uint32_t r = 0; r < 4; ++r) {
      SCOPED_TRACE("row " + std::to_string(r) + " weights " + std::to_string(weight_scale));
      const auto begin = got.begin() + std::ptrdiff_t{r} * kOut;
      EXPECT_LT(relative_error({begin, begin + kOut}, {want[r]}), kMeanError);
    }
  }
}

TEST_F(CudaLinearRange, AnActivationThatIsNotFiniteReachesTheResult) {
  WeightFile file;
  file.add("w", DType::q4_0, 32, 64, 1);
  const auto w = file.import_to(backend(), "w");
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    auto values = random_floats(128, 5);
    values[70] = bad;
    const auto x = fill(values, 64);
    const auto out = fill(std::vector<float>(64, 0.0F), 32);
    backend().linear_residual(x->rows(2), *w, nullptr, out->rows(2));
    const auto got = ::dllm::test::read(backend(), out->rows(2));
    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_TRUE(std::isfinite(got[i]));
      EXPECT_FALSE(std::isfinite(got[32 + i]));
    }
  }
}

}  // namespace
}  // namespace dllm::test

// products=mixed: some matrices are multiplied as int8, the others in binary16, whatever is beside
// them (which: weight_sizes_test.cpp). What each way computes is held to the bits of products=f16
// and products=int8, and, where one's result is the other's input, to the arithmetic that both
// promise.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention_case.hpp"
#include "cuda_support.hpp"
#include "dllm/quant.hpp"

namespace dllm::test {
namespace {

constexpr std::uint32_t kMany = 1300;  // rows that fill every multiprocessor
constexpr double kHalfError = 6e-4;    // of binary16 products (linear_test.cpp)

// `sums_most`: row-split, with more inputs than outputs.
bool is_int8(DType type, bool sums_most) {
  return type == DType::q4_k || type == DType::q5_k ||
         (sums_most && (type == DType::q6_k || type == DType::q8_0));
}

// Random blocks whose scales and minima are whole numbers of 2^-9, so few of them that weights have
// 11 bits: packing them loses nothing before they are rounded to int8.
std::vector<std::byte> short_blocks(DType type, std::uint32_t n_rows, std::uint32_t n_cols,
                                    std::uint64_t seed) {
  std::vector<std::byte> bytes = random_blocks(type, n_rows, n_cols, seed);
  const std::size_t block_bytes = row_bytes(type, 256);
  const auto write_half = [&](std::size_t at) {  // 2^-9
    bytes[at] = std::byte{0x00};
    bytes[at + 1] = std::byte{0x18};
  };
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    if (type == DType::q6_k) {
      for (std::size_t i = 192; i < 208; ++i) bytes[at + i] &= std::byte{63};  // scales
      write_half(at + 208);
    } else {  // Q4_K, Q5_K
      write_half(at);
      write_half(at + 2);
    }
  }
  return bytes;
}

std::vector<std::byte> short_q4_k(std::uint32_t n_rows, std::uint32_t n_cols, std::uint64_t seed) {
  return short_blocks(DType::q4_k, n_rows, n_cols, seed);
}

void add_weight(WeightFile& file, const std::string& name, DType type, std::uint32_t n_rows,
                std::uint32_t n_cols, std::uint64_t seed) {
  if (type == DType::q4_k || type == DType::q5_k || type == DType::q6_k) {
    file.add_blocks(name, type, n_rows, n_cols, short_blocks(type, n_rows, n_cols, seed));
  } else {
    file.add(name, type, n_rows, n_cols, seed);
  }
}

std::vector<float> first_rows(const std::vector<float>& values, std::uint32_t n,
                              std::uint32_t n_cols) {
  return {values.begin(), values.begin() + std::ptrdiff_t{n} * n_cols};
}

class CudaMixed : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    f16_ = std::move(backend_);
    backend_ = make_products("mixed");
    int8_ = make_products("int8");
    if (!backend_ || !int8_) GTEST_SKIP() << "the GPU is older";
  }
  std::unique_ptr<Backend> f16_, int8_;
};

TEST_F(CudaMixed, ProductsAreThoseOfTheWayOfTheMatrix) {
  constexpr std::uint32_t kIn = 2048;
  constexpr std::uint32_t kOut = 150;
  constexpr std::uint32_t kRows = 161;
  const auto values = random_floats(std::size_t{kRows} * kIn, 5, 3);
  for (const DType type : all_types()) {
    WeightFile file;
    file.add("w", type, kOut, kIn, 1);
    file.add_vector("norm", random_floats(kIn, 4, 2));
    for (const WeightRole role :
         {WeightRole::head_split, WeightRole::column_split, WeightRole::row_split}) {
      SCOPED_TRACE(std::string(dtype_name(type)) + ", role " +
                   std::to_string(static_cast<int>(role)));
      const auto logits = [&](Backend& backend) {
        const auto w = file.import_to(backend, "w", role);
        const auto norm = file.import_to(backend, "norm", WeightRole::replicated);
        const auto x = make_filled(backend, values, kIn);
        std::vector<float> out(std::size_t{kRows} * kOut);
        backend.logits(x->rows(kRows), *norm, kEps, *w, out);
        return out;
      };
      const bool int8 =
          role != WeightRole::head_split && is_int8(type, role == WeightRole::row_split);
      expect_same(logits(backend()), logits(int8 ? *int8_ : *f16_));
    }
  }
}

// Matrices of both kinds that read the same rows.
class CudaMixedProjections : public CudaMixed {
 protected:
  static constexpr std::uint32_t kIn = 2048;                            // in parts in both ways
  static constexpr std::array<std::uint32_t, 3> kOut = {300, 130, 70};  // of q, k and v

  void SetUp() override {
    CudaMixed::SetUp();
    if (IsSkipped()) return;
    const auto add = [&](const std::string& name, DType type, std::uint32_t n_out) {
      add_weight(file_, name, type, n_out, kIn, n_out);
      file_.add_vector(name + "_bias", random_floats(n_out, 6));
    };
    add("q", DType::q4_k, kOut[0]);
    add("k", DType::q4_k, kOut[1]);
    add("v", DType::iq4_xs, kOut[2]);
    add("r", DType::q4_k, 65);
    add("s", DType::q4_k, 64);
    file_.add_vector("norm", random_floats(kIn, 7, 2));
    values_ = random_floats(std::size_t{kMany} * kIn, 8, 3);
  }

  // Of the first n rows, one call's results, in order.
  std::vector<std::vector<float>> project(Backend& backend, const std::vector<std::string>& names,
                                          std::uint32_t n) {
    const auto x = make_filled(backend, first_rows(values_, n, kIn), kIn);
    const auto norm = file_.import_to(backend, "norm", WeightRole::replicated);
    std::vector<std::unique_ptr<Weight>> weights, biases;
    std::vector<std::unique_ptr<Buffer>> out;
    std::vector<Projection> projections;
    for (const std::string& name : names) {
      weights.push_back(file_.import_to(backend, name, WeightRole::row_split));
      biases.push_back(file_.import_to(backend, name + "_bias", WeightRole::replicated));
      out.push_back(backend.make_buffer(n, weights.back()->n_rows()));
      projections.push_back({weights.back().get(), biases.back().get(), out.back()->rows(n)});
    }
    backend.norm_linear(x->rows(n), norm.get(), kEps, projections);
    std::vector<std::vector<float>> results;
    for (const auto& each : out) results.push_back(read_closely(backend, each->rows(n)));
    return results;
  }

  WeightFile file_;
  std::vector<float> values_;
};

TEST_F(CudaMixedProjections, DoNotDependOnThoseOfTheOtherKind) {
  for (const std::uint32_t n : {1U, 33U, 160U, 161U, kMany}) {
    SCOPED_TRACE("rows " + std::to_string(n));
    const auto int8_alone = project(backend(), {"q", "k"}, n);
    const auto f16_alone = project(*f16_, {"v"}, n);  // rows are read as mixed reads them
    const auto together = project(backend(), {"q", "k", "v"}, n);
    expect_same(together[0], int8_alone[0]);
    expect_same(together[1], int8_alone[1]);
    expect_same(together[2], f16_alone[0]);
    const auto turned = project(backend(), {"q", "v", "k"}, n);
    expect_same(turned[0], together[0]);
    expect_same(turned[1], together[2]);
    expect_same(turned[2], together[1]);
  }
}

TEST_F(CudaMixedProjections, AgreeWithTheOracleOfTheirWay) {
  for (const std::uint32_t n : {1U, 160U, 161U}) {
    SCOPED_TRACE("rows " + std::to_string(n));
    const auto got = project(backend(), {"q", "k", "v"}, n);
    const Rows normed = oracle_norm(to_rows(first_rows(values_, n, kIn), kIn), file_.vector("norm"),
                                    static_cast<double>(kEps));
    const double most = n < 33 ? 10 * kBorderError : kBorderError;
    const auto expect_int8 = [&](const std::vector<float>& values, const std::string& name) {
      const Rows& weights = file_.decoded(name);
      const auto bias = file_.vector(name + "_bias");
      const Rows rounded = oracle_linear(rounded_to_int8(weights), rounded_to_int8(normed), bias);
      EXPECT_LT(relative_error(values, rounded), most);
      EXPECT_LT(relative_error(values, oracle_linear(weights, normed, bias)), kInt8Error);
    };
    expect_int8(got[0], "q");
    expect_int8(got[1], "k");
    EXPECT_LT(
        relative_error(got[2], oracle_linear(file_.decoded("v"), normed, file_.vector("v_bias"))),
        2 * kHalfError);
  }
}

TEST_F(CudaMixedProjections, OfFewRowsAreThoseOfMany) {
  const auto many = project(backend(), {"q", "k", "v"}, kMany);
  for (const std::uint32_t n : {1U, 33U, 160U, 161U}) {
    SCOPED_TRACE("rows " + std::to_string(n));
    const auto few = project(backend(), {"q", "k", "v"}, n);
    for (std::size_t i = 0; i < kOut.size(); ++i)
      expect_same(few[i], first_rows(many[i], n, kOut[i]));
  }
}

// More than a launch takes, of one kind.
TEST_F(CudaMixedProjections, MayBeMoreThanALaunchTakes) {
  constexpr std::uint32_t kRows = 40;
  const auto all = project(backend(), {"q", "v", "k", "r", "s"}, kRows);
  const auto first = project(backend(), {"q", "k", "r"}, kRows);
  const auto last = project(backend(), {"s"}, kRows);
  const auto other = project(backend(), {"v"}, kRows);
  expect_same(all[0], first[0]);
  expect_same(all[1], other[0]);
  expect_same(all[2], first[1]);
  expect_same(all[3], first[2]);
  expect_same(all[4], last[0]);
}

// A feed-forward layer of matrices that may be of different types.
struct Types {
  DType gate, up, down;
};

FeedForward layer_of(Backend& backend, const Types& types, std::uint32_t width,
                     std::uint32_t n_ffn) {
  return {backend, width, [&](WeightFile& file) {
            add_weight(file, "gate", types.gate, n_ffn, width, 1);
            add_weight(file, "up", types.up, n_ffn, width, 2);
            add_weight(file, "down", types.down, width, n_ffn, 3);
          }};
}

bool down_is_int8(const Types& types, std::uint32_t width, std::uint32_t n_ffn) {
  return is_int8(types.down, n_ffn > width);
}

// What the layer adds, with what each way rounds.
Rows want_of(const FeedForward& layer, const Types& types, const std::vector<float>& inputs) {
  // A step for `group` inputs, for `weight_group` weights.
  const auto product = [](const Rows& weights, bool int8, const Rows& x, std::size_t group,
                          std::size_t weight_group) {
    return int8 ? oracle_linear(rounded_to_int8(weights, weight_group), rounded_to_int8(x, group))
                : oracle_linear(weights, x);
  };
  const bool gate_int8 = is_int8(types.gate, false);
  const bool up_int8 = is_int8(types.up, false);
  const std::size_t group = gate_int8 && up_int8 ? 256 : 128;
  const Rows normed = layer.oracle_normed(inputs);
  Rows hidden = product(layer.gate_values(), gate_int8, normed, group, 256);
  const Rows up = product(layer.up_values(), up_int8, normed, group, 256);
  for (std::size_t r = 0; r < hidden.size(); ++r)
    for (std::size_t j = 0; j < hidden[r].size(); ++j)
      hidden[r][j] = oracle_silu(hidden[r][j]) * up[r][j];
  const Rows& down = layer.down_values();
  const auto width = static_cast<std::uint32_t>(down.size());
  return product(down, down_is_int8(types, width, static_cast<std::uint32_t>(down[0].size())),
                 hidden, 128, 128);
}

std::string name_of(const Types& types) {
  return std::string(dtype_name(types.gate)) + "_" + std::string(dtype_name(types.up)) + "_" +
         std::string(dtype_name(types.down));
}

class CudaMixedLayer : public CudaMixed, public testing::WithParamInterface<Types> {
 protected:
  static constexpr std::uint32_t kWidth = 256;
  static bool rounds_again(std::uint32_t ffn) {
    const Types& types = GetParam();
    return down_is_int8(types, kWidth, ffn) &&
           !(is_int8(types.gate, false) && is_int8(types.up, false));
  }

  // Against the oracle of all roundings to int8. What binary16 products are off by, e steps, puts a
  // share e of codes on the other side of a border, by a step: silu(gate) * up is off by sqrt(2)
  // kHalfError of its size, a step is 1 / 127 of the largest of 128, six to nine times that size,
  // so the error is sqrt(0.8 * 8.5e-4 * 9 / 127) = 7e-3 at most; if a product took the other way,
  // 1e-2 and more. That is so of many values: in one row of 256 five codes are on the other side,
  // or eight.
  static double most_error(std::uint32_t ffn) {
    return rounds_again(ffn) ? 7e-3 : 10 * kBorderError;
  }
  static std::vector<std::uint32_t> row_counts(std::uint32_t ffn) {
    if (ffn > 8448) return {33};              // gate and up in binary16 are not split
    if (rounds_again(ffn)) return {40, 161};  // rows alone: held to these (below)
    return {1, 40, 161};
  }
};

INSTANTIATE_TEST_SUITE_P(Types, CudaMixedLayer,
                         testing::Values(Types{DType::q4_k, DType::q4_k, DType::q4_k},
                                         Types{DType::q4_k, DType::q4_k, DType::q6_k},
                                         Types{DType::q5_k, DType::q5_k, DType::iq4_xs},
                                         Types{DType::q6_k, DType::q6_k, DType::q4_k},
                                         Types{DType::q6_k, DType::q6_k, DType::iq4_xs},
                                         Types{DType::q4_k, DType::q6_k, DType::iq4_xs},
                                         Types{DType::q6_k, DType::q5_k, DType::q6_k},
                                         Types{DType::iq4_xs, DType::q6_k, DType::q4_k}),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(CudaMixedLayer, AgreesWithTheOracleOfItsWays) {
  for (const std::uint32_t ffn : {256U, 1280U, 8704U}) {
    const FeedForward layer = layer_of(backend(), GetParam(), kWidth, ffn);
    for (const std::uint32_t n_rows : row_counts(ffn)) {
      SCOPED_TRACE(std::to_string(n_rows) + " rows, " + std::to_string(ffn));
      const auto inputs = random_floats(std::size_t{n_rows} * kWidth, 5, 3);
      EXPECT_LT(relative_error(layer.added(inputs), want_of(layer, GetParam(), inputs)),
                most_error(ffn));
    }
  }
}

// Around the tiles' numbers of rows, beside as many as fill them all: on an H200 tiles of up to 96
// columns of silu(gate) * up for few rows, of 128 for 1,300 of 12,288 and more.
void expect_few_rows_as_of_many(Backend& backend, const FeedForward& layer, std::uint32_t width) {
  const auto values = random_floats(std::size_t{kMany} * width, 5, 3);
  const auto run = [&](std::uint32_t n) {
    const auto x = make_filled(backend, first_rows(values, n, width), width);
    layer.run(x->rows(n));
    return read_closely(backend, x->rows(n));
  };
  const std::vector<float> many = run(kMany);
  expect_same(run(kMany), many);
  for (const std::uint32_t n : {1U, 33U, 160U, 161U, 168U, 176U, 177U}) {
    SCOPED_TRACE("rows " + std::to_string(n));
    expect_same(run(n), first_rows(many, n, width));
  }
}

TEST_P(CudaMixedLayer, GivesFewRowsWhatItGivesMany) {
  for (const std::uint32_t ffn : {4096U, 12288U}) {
    SCOPED_TRACE(ffn);
    expect_few_rows_as_of_many(backend(), layer_of(backend(), GetParam(), kWidth, ffn), kWidth);
  }
}

TEST_F(CudaMixed, LayersOfAnyWidthGiveFewRowsWhatTheyGiveMany) {
  constexpr std::uint32_t kWidth = 256;
  const Types types = {DType::q4_k, DType::q4_k, DType::f16};  // where all are int8, down, too
  for (const std::uint32_t ffn : {330U, 12300U, 12352U}) {
    SCOPED_TRACE(ffn);
    for (Backend* each : {backend_.get(), int8_.get()})
      expect_few_rows_as_of_many(*each, layer_of(*each, types, kWidth, ffn), kWidth);
  }
}

TEST_F(CudaMixed, LayersOfOtherTypesAreThoseOfBinary16) {
  constexpr std::uint32_t kWidth = 256;
  const Types types = {DType::q6_k, DType::q6_k, DType::f16};
  const auto values = random_floats(std::size_t{161} * kWidth, 5, 3);
  const auto run = [&](Backend& backend) {
    const FeedForward layer = layer_of(backend, types, kWidth, 8704);
    const auto x = make_filled(backend, values, kWidth);
    layer.run(x->rows(161));
    return read_closely(backend, x->rows(161));
  };
  expect_same(run(backend()), run(*f16_));
}

// Gate and up of rows that fill no block of a tile, beside a matrix that takes any number.
TEST_F(CudaMixed, FeedForwardLayersOfAnyWidthAgreeWithTheOracle) {
  constexpr std::uint32_t kWidth = 256;
  const Types types = {DType::q4_k, DType::q4_k, DType::f16};
  for (const std::uint32_t ffn : {5U, 50U, 70U, 200U, 320U}) {
    const FeedForward layer = layer_of(backend(), types, kWidth, ffn);
    for (const std::uint32_t n_rows : {1U, 70U, 165U}) {
      SCOPED_TRACE(std::to_string(n_rows) + " rows, " + std::to_string(ffn));
      const auto inputs = random_floats(std::size_t{n_rows} * kWidth, 5, 3);
      EXPECT_LT(relative_error(layer.added(inputs), want_of(layer, types, inputs)),
                10 * kBorderError);
    }
  }
}

// The power of two of a row of silu(gate) * up is made from a bound that weights and inputs which
// are all alike reach.
TEST_F(CudaMixed, ProductsThatReachTheirBoundStayInRange) {
  constexpr std::uint32_t kWidth = 512;
  constexpr std::uint32_t kFfn = 256;
  constexpr std::size_t kBlockBytes = 144;
  std::vector<std::byte> alike = short_q4_k(kFfn, kWidth, 1);
  for (std::size_t at = 0; at < alike.size(); at += kBlockBytes)
    for (std::size_t i = 4; i < kBlockBytes; ++i)  // scales of 63, minima of 0, codes of 15
      alike[at + i] = i < 8    ? std::byte{0xFF}
                      : i < 12 ? std::byte{0x00}
                      : i < 16 ? std::byte{0x0F}
                               : std::byte{0xFF};
  FeedForward layer(backend(), kWidth, [&](WeightFile& file) {
    file.add_blocks("gate", DType::q4_k, kFfn, kWidth, alike);
    file.add_blocks("up", DType::q4_k, kFfn, kWidth, alike);
    file.add("down", DType::q6_k, kWidth, kFfn, 3);
  });
  WeightFile ones;
  ones.add_vector("ones", std::vector<float>(kWidth, 1));
  layer.norm = ones.import_to(backend(), "ones", WeightRole::replicated);
  for (const double size : {1.0, 1e-3, 1e6}) {
    SCOPED_TRACE(size);
    const double normed = size / std::sqrt(size * size + static_cast<double>(kEps));
    const double gate = kWidth * layer.gate_values()[0][0] * normed;
    const Rows hidden(2, std::vector<double>(kFfn, oracle_silu(gate) * gate));
    const std::vector<float> inputs(std::size_t{2} * kWidth, static_cast<float>(size));
    EXPECT_LT(relative_error(layer.added(inputs), oracle_linear(layer.down_values(), hidden)),
              10 * kBorderError);
  }
}

// A weight or an input that is not finite shows in every row that meets it, and in no other.
TEST_F(CudaMixed, WhatIsNotFiniteInAFeedForwardLayerShows) {
  constexpr std::uint32_t kWidth = 256;
  constexpr std::uint32_t kFfn = 256;
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool in_weight : {false, true}) {
      const FeedForward layer(backend(), kWidth, [&](WeightFile& file) {
        std::vector<std::byte> gate = short_q4_k(kFfn, kWidth, 1);
        const std::size_t row = 150 * std::size_t{144};
        if (in_weight) gate[row + 1] = std::isnan(bad) ? std::byte{0x7E} : std::byte{0x7C};
        file.add_blocks("gate", DType::q4_k, kFfn, kWidth, gate);
        add_weight(file, "up", DType::q4_k, kFfn, kWidth, 2);
        file.add("down", DType::q6_k, kWidth, kFfn, 3);
      });
      auto values = random_floats(std::size_t{2} * kWidth, 5);
      if (!in_weight) values[kWidth + 70] = bad;
      const auto x = fill(values, kWidth);
      layer.run(x->rows(2));
      const auto got = ::dllm::test::read(backend(), x->rows(2));
      for (std::size_t i = 0; i < kWidth; ++i) {
        EXPECT_EQ(std::isfinite(got[i]), !in_weight);
        EXPECT_FALSE(std::isfinite(got[kWidth + i]));
      }
    }
  }
}

// Attention writes the output product's input where all matrices that may read it take one way. Be
// that as it may, the product is that of attention's rows.
TEST_F(CudaMixed, AttentionIsReadAsItsRowsAre) {
  constexpr std::uint32_t kWidth = 4 * 128;
  constexpr std::uint32_t kKvWidth = 2 * 128;
  constexpr std::uint32_t kOut = 64;
  WeightFile file;
  file.add("q4", DType::q4_k, kOut, kWidth, 4);
  file.add("iq4", DType::iq4_xs, kOut, kWidth, 5);
  const auto spans = pack({50, 3, 107});
  const std::uint32_t n = spans.back().q_begin + spans.back().q_count;
  const auto attended = [&](Backend& backend, const std::vector<const char*>& readers) {
    std::vector<std::unique_ptr<Weight>> weights;
    for (const char* name : readers)
      weights.push_back(file.import_to(backend, name, WeightRole::row_split));
    const auto q = make_filled(backend, random_floats(std::size_t{n} * kWidth, 1, 2), kWidth);
    const auto k = make_filled(backend, random_floats(std::size_t{n} * kKvWidth, 2, 2), kKvWidth);
    const auto v = make_filled(backend, random_floats(std::size_t{n} * kKvWidth, 3), kKvWidth);
    const auto out = backend.make_buffer(n, kWidth);
    const auto copy = backend.make_buffer(n, kWidth);
    const auto list = backend.make_attention_spans(3);
    list->write(spans);
    const auto all = backend.make_index_list(n);
    std::vector<std::int32_t> rows(n);
    for (std::uint32_t r = 0; r < n; ++r) rows[r] = static_cast<std::int32_t>(r);
    all->write(rows);
    const auto attend = [&] {
      backend.attention(q->rows(n), k->rows(n), v->rows(n), *list, {4, 2, 128, 0.1F}, out->rows(n));
    };
    const auto product = [&](Buffer& x, const Weight& w) {
      const auto residual =
          make_filled(backend, std::vector<float>(std::size_t{n} * kOut, 0.0F), kOut);
      attend();
      backend.copy_rows(out->rows(n), *all, copy->rows(n));
      if (&x == out.get()) attend();
      backend.linear_residual(x.rows(n), w, nullptr, residual->rows(n));
      return read_closely(backend, residual->rows(n));
    };
    std::vector<std::vector<float>> results;
    for (const auto& w : weights) {
      results.push_back(product(*out, *w));
      expect_same(product(*copy, *w), results.back());
    }
    return results;
  };
  for (const std::vector<const char*>& readers :
       std::vector<std::vector<const char*>>{{"q4"}, {"iq4"}, {"q4", "iq4"}}) {
    SCOPED_TRACE(readers.size() == 2 ? "both" : readers[0]);
    const auto mixed = make_products("mixed");  // that knows no other readers
    const auto got = attended(*mixed, readers);
    if (readers.size() == 1 && readers[0] == std::string("iq4"))
      expect_same(got[0], attended(*f16_, {"iq4"})[0]);
  }
}

}  // namespace
}  // namespace dllm::test

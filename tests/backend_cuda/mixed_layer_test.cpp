// products=mixed in feed-forward layers, whose matrices may be multiplied in different ways: held
// to the arithmetic that each way promises, and rows alone to rows in company.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "mixed_support.hpp"

namespace dllm::test {
namespace {

std::vector<std::byte> short_q4_k(std::uint32_t n_rows, std::uint32_t n_cols, std::uint64_t seed) {
  return short_blocks(DType::q4_k, n_rows, n_cols, seed);
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

TEST_F(CudaMixed, WhatIsNotFiniteInAFeedForwardLayerShows) {
  constexpr std::uint32_t kWidth = 256;
  constexpr std::uint32_t kFfn = 256;
  expect_what_is_not_finite_to_show(backend(), kWidth, [&](std::optional<float> bad) {
    return FeedForward(backend(), kWidth, [&](WeightFile& file) {
      std::vector<std::byte> gate = short_q4_k(kFfn, kWidth, 1);
      const std::size_t row = 150 * std::size_t{144};
      if (bad) gate[row + 1] = std::isnan(*bad) ? std::byte{0x7E} : std::byte{0x7C};
      file.add_blocks("gate", DType::q4_k, kFfn, kWidth, gate);
      add_weight(file, "up", DType::q4_k, kFfn, kWidth, 2);
      file.add("down", DType::q6_k, kWidth, kFfn, 3);
    });
  });
}

}  // namespace
}  // namespace dllm::test

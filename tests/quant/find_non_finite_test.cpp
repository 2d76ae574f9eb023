// Infinite and NaN weights are found without decoding, exactly where decoding shows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "dllm/quant.hpp"

namespace dllm {
namespace {

// First element of the first block that decodes to anything infinite or NaN.
std::optional<std::uint64_t> find_by_decoding(DType dtype, std::span<const std::byte> bytes) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<float> values(bytes.size() / info.block_bytes * info.block_size);
  decode_row(dtype, bytes, values);
  const auto found = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (found == values.end()) return std::nullopt;
  const auto index = static_cast<std::uint64_t>(found - values.begin());
  return index / info.block_size * info.block_size;
}

TEST(FindNonFinite, AgreesWithDecodingForEveryType) {
  std::mt19937 random(5);
  for (const DTypeInfo& info : all_dtypes()) {
    if (!can_decode(info.dtype)) continue;
    int found = 0;
    int clean = 0;
    for (int trial = 0; trial < 400; ++trial) {
      std::vector<std::byte> bytes(8 * info.block_bytes);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
      const auto want = find_by_decoding(info.dtype, bytes);
      ASSERT_EQ(find_non_finite(info.dtype, bytes), want) << info.name << " trial " << trial;
      ++(want ? found : clean);
    }
    EXPECT_GT(found, 0) << info.name << ": no case with a bad weight";
    EXPECT_GT(clean, 0) << info.name << ": no case without one";
  }
}

TEST(FindNonFinite, LooksAtDoubles) {
  std::vector<double> values = {1, -0.0, 1e308, INFINITY};
  EXPECT_EQ(find_non_finite(DType::f64, std::as_bytes(std::span(values))), 3U);
  values[3] = 0;
  EXPECT_EQ(find_non_finite(DType::f64, std::as_bytes(std::span(values))), std::nullopt);
}

TEST(FindNonFinite, IntegersAreAlwaysFinite) {
  const std::vector<std::byte> ones(64, std::byte{255});
  EXPECT_EQ(find_non_finite(DType::i32, ones), std::nullopt);
}

}  // namespace
}  // namespace dllm

// Passes: several tiles of weights share a walk over a long input. Which tiles go together must not
// change a bit of any result.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "conformance.hpp"
#include "isa.hpp"
#include "matmul.hpp"

namespace dllm::cpu {
namespace {

// Longer than a second-level cache, by rows: one pass of one tile would be taken below that.
constexpr std::uint32_t kCols = 2304;
constexpr std::uint32_t kRows = 460;
constexpr std::uint32_t kOutputs = 5 * kTileRows + 7;  // two passes of 4 tiles, the last not whole

const FastKernels* fast_kernels() {
  for (const Isa& isa : all_isas())
    if (isa.usable && isa.fast) return isa.fast;
  return nullptr;
}

class Input {
 public:
  explicit Input(const FastKernels& fast)
      : x_(test::random_floats(std::size_t{kRows} * kCols, 3)),
        codes_((std::uint64_t{kRows} + kCodeRows) * kCols + kFastRowSlack * kBlockCols,
               "test codes"),
        scales_((std::uint64_t{kRows} + kCodeRows) * kCols / kBlockCols),
        sums_(scales_.size()) {
    panel_.blocks = {codes_.as<std::int8_t>(), scales_.data(), sums_.data()};
    panel_.in_tiles = fast.in_tiles;
    panel_.n_rows = kRows;
    panel_.n_cols = kCols;
    for (std::uint32_t r = 0; r < kRows; ++r)
      for (std::uint32_t b = 0; b < panel_.n_blocks(); ++b)
        fast.quantise(x_.data() + std::size_t{r} * kCols + std::size_t{b} * kBlockCols, kGroupCols,
                      panel_.block(b, r));
  }
  const Panel& panel() const { return panel_; }

 private:
  std::vector<float> x_;
  AlignedMemory codes_;
  std::vector<float> scales_;
  std::vector<std::int32_t> sums_;
  Panel panel_;
};

std::vector<float> multiply(const Multiplier& multiplier, const Matrix& weight, const Input& input,
                            TileRange tiles) {
  auto scratch = std::make_unique<TileScratch>();
  const std::size_t floats = std::size_t{tiles.count} * kRows * kTileRows;
  AlignedMemory acc(floats * sizeof(float), "test sums");
  multiply_tiles(multiplier, weight, tiles, input.panel(), 0, kRows, *scratch, acc.as<float>());
  return {acc.as<float>(), acc.as<float>() + floats};
}

TEST(Passes, OfSeveralTilesCoverAllAndGiveTheSameBitsAsOneByOne) {
  const FastKernels* fast = fast_kernels();
  if (!fast) GTEST_SKIP() << "no instruction set of this processor has fast products";
  FastKernels several = *fast;
  several.pass_tiles = 4;
  FastKernels one = *fast;
  one.pass_tiles = 1;
  test::WeightFile file;
  file.add("w", DType::q4_k, kOutputs, kCols, 1);
  Arena arena(1);
  const std::shared_ptr<const GgufFile> opened = file.file();
  const Matrix weight(*opened, opened->tensor("w"), arena);
  const Kernels& kernels = *portable_kernels();
  const Multiplier together{kernels, &several, nullptr, ProductMode::fast};
  const Multiplier apart{kernels, &one, nullptr, ProductMode::fast};
  const Input input(*fast);

  const TilePasses passes(together, weight, kRows);
  ASSERT_EQ(passes.tiles_each(), 4U);
  ASSERT_EQ(passes.count(), 2U);
  EXPECT_EQ(TilePasses(together, weight, 1).tiles_each(), 1U) << "a short input stays near anyway";
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < passes.count(); ++i) {
    const TileRange tiles = passes[i];
    ASSERT_EQ(tiles.first, next);
    next += tiles.count;
    const std::vector<float> got = multiply(together, weight, input, tiles);
    for (std::uint32_t t = 0; t < tiles.count; ++t) {
      const std::vector<float> want = multiply(apart, weight, input, {tiles.first + t, 1});
      EXPECT_EQ(0,
                std::memcmp(got.data() + t * want.size(), want.data(), want.size() * sizeof(float)))
          << "tile " << tiles.first + t;
    }
  }
  EXPECT_EQ(next, weight.n_tiles());
}

}  // namespace
}  // namespace dllm::cpu

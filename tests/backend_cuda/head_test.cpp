// head_stats and logits against the oracle.
//
// Logits are chosen: the output matrix has one input column per row to choose, and every logit is a
// binary16 number, so the product is exact. Many of them tie, which is the point.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cuda_support.hpp"
#include "head_stats_oracle.hpp"

namespace dllm::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kEverything = kStatSampled | kStatArgmax | kStatTop2 | kStatEntropy |
                                      kStatLogSumExp | kStatProbOf | kStatTopList;

// Multiples of 1/64 below 16 have at most ten bits.
std::vector<float> random_logits(std::size_t n, std::uint64_t seed, float scale) {
  std::vector<float> values = random_floats(n, seed, scale);
  for (float& value : values) value = std::round(value * 64) / 64;
  return values;
}

std::vector<double> as_double(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void expect_prob(float got, double want) {
  EXPECT_NEAR(static_cast<double>(got), want, 1e-6 + 2e-6 * want);
}

void expect_row(const HeadStats& got, std::uint32_t row, const StatsRequest& request,
                const RowStats& want) {
  ASSERT_EQ(got.non_finite[row] != 0, want.non_finite);
  if (want.non_finite) return;
  EXPECT_EQ(got.argmax[row], want.argmax);
  EXPECT_EQ(got.sampled[row], want.sampled) << "lead " << want.sampled_lead;
  expect_prob(got.sampled_prob[row], want.sampled_prob);
  expect_prob(got.top1_prob[row], want.top1_prob);
  expect_prob(got.top2_prob[row], want.top2_prob);
  EXPECT_NEAR(static_cast<double>(got.entropy[row]), want.entropy, 5e-6 + 2e-6 * want.entropy);
  if (want.log_sum_exp == kMinusInfinity) {
    EXPECT_EQ(static_cast<double>(got.log_sum_exp[row]), want.log_sum_exp);
  } else {
    const double most = std::numeric_limits<float>::max();
    const double lse = std::clamp(want.log_sum_exp, -most, most);
    EXPECT_NEAR(static_cast<double>(got.log_sum_exp[row]), lse, 2e-6 + 2e-7 * std::abs(lse));
  }
  for (std::size_t j = 0; j < want.prob_of.size(); ++j)
    expect_prob(got.prob_of[row * got.prob_of_stride + j], want.prob_of[j]);
  if ((request.want & kStatTopList) == 0) return;
  for (std::size_t j = 0; j < want.top_ids.size(); ++j) {
    EXPECT_EQ(got.top_ids[row * got.top_stride + j], want.top_ids[j]) << "place " << j;
    expect_prob(got.top_probs[row * got.top_stride + j], want.top_probs[j]);
  }
}

std::string describe(const StatsRequest& r) {
  return "T " + std::to_string(r.temperature) + " top_p " + std::to_string(r.top_p) + " top_k " +
         std::to_string(r.top_k) + (r.domain == Domain::raw ? " raw" : " filtered") +
         (r.allow_all ? " allow_all" : "") + (r.guided ? " guided" : "") + " seed " +
         std::to_string(r.seed);
}

class CudaHead : public CudaTest {
 protected:
  // columns[i][v] is the logit v of a row that selects column i.
  void choose(const std::vector<std::vector<float>>& columns) {
    Rows weights;
    for (std::size_t v = 0; v < columns[0].size(); ++v) {
      weights.emplace_back();
      for (const auto& column : columns) weights.back().push_back(static_cast<double>(column[v]));
    }
    file_ = std::make_unique<WeightFile>();
    file_->add_matrix("output", weights);
    file_->add_vector("norm", std::vector<float>(columns.size(), std::ldexp(1.0F, 50)));
    output_ = file_->import_to(backend(), "output");
    norm_ = file_->import_to(backend(), "norm", WeightRole::replicated);
    n_cols_ = columns.size();
  }

  HeadStats run(const std::vector<std::size_t>& rows, const std::vector<StatsRequest>& requests) {
    const auto n = static_cast<std::uint32_t>(rows.size());
    std::vector<float> hidden(rows.size() * n_cols_, 0.0F);
    for (std::size_t r = 0; r < rows.size(); ++r) hidden[r * n_cols_ + rows[r]] = 1;
    const auto x = fill(hidden, static_cast<std::uint32_t>(n_cols_));
    HeadStats stats;
    stats.reserve(n, 8, 8);
    backend().head_stats(x->rows(n), *norm_, std::ldexp(1.0F, 100), *output_, requests, stats);
    return stats;
  }

  std::unique_ptr<WeightFile> file_;
  std::unique_ptr<Weight> output_;
  std::unique_ptr<Weight> norm_;
  std::size_t n_cols_ = 0;
};

TEST_F(CudaHead, AgreesWithOracleOnEverySettingOfSmallVocabularies) {
  const std::vector<std::vector<float>> columns = {{0.5F, -1, 3, 2.5F, 0, -2, 1, 2},
                                                   {1, 1, 1, 1, 1, 1, 1, 1},
                                                   {2, -3, 2, 0, 2, 0, -3, 9},
                                                   {-80, 30, -200, 30.5F, 0, 5, 29, -60},
                                                   {-kInf, 2, -kInf, 1, 2, -kInf, 0, -kInf}};
  const std::array<std::uint32_t, 3> positions = {4, 0, 77};
  const std::array<std::int32_t, 1> both = {1};
  const std::array<std::int32_t, 2> confidence = {2, 3};
  const std::array<std::int32_t, 3> prob_of = {0, 2, 7};
  for (const auto& column : columns) {
    choose({column});
    for (const bool suppressing : {false, true}) {
      std::vector<StatsRequest> settings;
      for (const float temperature : {0.0F, 1e-38F, 0.3F, 1.0F, 4.0F})
        for (const float top_p : {1.0F, 0.9F, 0.5F, 1e-6F})
          for (const std::uint32_t top_k : {0U, 1U, 3U, 7U, 20U})
            for (const Domain domain : {Domain::raw, Domain::filtered})
              for (const bool allow_all : {false, true}) {
                StatsRequest request;
                request.first_row = 3 * static_cast<std::uint32_t>(settings.size());
                request.positions = positions;
                request.prob_of = prob_of;
                request.want = kEverything;
                request.top_list = 8;
                request.mask_id = 5;
                request.n_tokens = 7;
                request.step = 3;
                request.seed = 1000 + settings.size();
                request.temperature = temperature;
                request.top_p = top_p;
                request.top_k = top_k;
                request.domain = domain;
                request.allow_all = allow_all;
                if (suppressing) {
                  request.suppress_both = both;
                  request.suppress_confidence = confidence;
                }
                settings.push_back(request);
              }
      const HeadStats got = run(std::vector<std::size_t>(3 * settings.size()), settings);
      for (const StatsRequest& setting : settings) {
        SCOPED_TRACE(describe(setting) + (suppressing ? " suppressing" : ""));
        for (std::uint32_t r = 0; r < 3; ++r)
          expect_row(got, setting.first_row + r, setting,
                     oracle_row_stats(as_double(column), setting, positions[r]));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(CudaHead, AgreesWithOracleOnRandomSettingsOfALargerVocabulary) {
  constexpr std::size_t kVocab = 5003;
  std::vector<std::vector<float>> columns;
  for (std::uint64_t i = 0; i < 3; ++i)
    columns.push_back(random_logits(kVocab, i, 4.0F + 4.0F * static_cast<float>(i)));
  choose(columns);
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const auto pick = [&](auto... choices) {
      const std::array values = {choices...};
      return values[random() % values.size()];
    };
    const std::array<std::uint32_t, 3> positions = {static_cast<std::uint32_t>(random() % 99), 200,
                                                    201};
    const std::array<std::int32_t, 2> prob_of = {3, 5000};
    const std::array<std::int32_t, 2> confidence = {700, 4999};
    StatsRequest request;
    request.positions = positions;
    request.prob_of = prob_of;
    request.want = pick(kEverything, kEverything & ~kStatTopList);
    request.top_list = 5;
    request.temperature = pick(0.0F, 0.05F, 0.7F, 1.0F, 20.0F);
    request.top_p = pick(1.0F, 1.0F, 0.95F, 0.3F);
    request.top_k = pick(0U, 0U, 1U, 40U);
    request.domain = pick(Domain::raw, Domain::filtered);
    if (pick(true, false)) request.suppress_confidence = confidence;
    request.allow_all = pick(true, false);
    request.mask_id = 77;
    request.n_tokens = 4990;
    request.seed = random();
    request.step = static_cast<std::uint32_t>(trial);
    request.guided = pick(true, false);
    request.guidance_first_row = 3;
    request.guidance_scale = 1.5F;
    SCOPED_TRACE(describe(request));
    const std::vector<std::size_t> rows = {0, 1, 2, 1, 2, 0};
    const HeadStats got = run(rows, {request});
    for (std::uint32_t r = 0; r < 3; ++r) {
      std::vector<double> logits = as_double(columns[rows[r]]);
      if (request.guided)  // exact in f32 on this grid
        logits = oracle_guided(logits, as_double(columns[rows[r + 3]]), 1.5);
      expect_row(got, r, request, oracle_row_stats(logits, request, positions[r]));
    }
    if (HasFailure()) return;
  }
}

TEST_F(CudaHead, FlagsRowsThatAreNotFinite) {
  const std::array<std::uint32_t, 1> positions = {0};
  for (const std::vector<float>& column :
       {std::vector<float>{0, std::numeric_limits<float>::quiet_NaN(), 1, 2},
        std::vector<float>{0, kInf, 1, 2}, std::vector<float>{-kInf, -kInf, -kInf, 5}}) {
    choose({column});
    StatsRequest request;
    request.positions = positions;
    request.want = kEverything;
    request.top_list = 2;
    request.mask_id = 3;
    request.n_tokens = 4;
    EXPECT_EQ(run({0}, {request}).non_finite[0], 1);
  }
}

TEST_F(CudaHead, TopListLongerThanTheVocabularyEndsWithNoIds) {
  choose({{1, -kInf, 3}});
  const std::array<std::uint32_t, 1> positions = {0};
  StatsRequest request;
  request.positions = positions;
  request.want = kStatTopList;
  request.top_list = 5;
  request.n_tokens = 3;
  const HeadStats got = run({0}, {request});
  EXPECT_EQ(std::vector<std::int32_t>(got.top_ids.begin(), got.top_ids.begin() + 5),
            (std::vector<std::int32_t>{2, 0, 1, -1, -1}));
}

// More rows than one piece of the logits buffer holds (256 MiB / (4 * 126,464) = 530).
TEST_F(CudaHead, MoreRowsThanFitAtOnceAreAnsweredInPieces) {
  constexpr std::uint32_t kVocab = 126464;
  constexpr std::uint32_t kRows = 600;
  WeightFile file;
  file.add("output", DType::q8_0, kVocab, 32, 1);
  file.add_vector("norm", random_floats(32, 2, 2));
  const auto output = file.import_to(backend(), "output");
  const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
  const auto values = random_floats(std::size_t{kRows} * 32, 3, 2);
  const auto stats_of = [&](std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint32_t> positions;
    for (std::uint32_t r = 0; r < count; ++r) positions.push_back(first + r);
    StatsRequest request;
    request.positions = positions;
    request.want = kStatSampled | kStatEntropy;
    request.temperature = 1;
    request.n_tokens = kVocab;
    request.seed = 9;
    const auto at = values.begin() + std::ptrdiff_t{first} * 32;
    const auto x = fill({at, at + std::ptrdiff_t{count} * 32}, 32);
    HeadStats stats;
    stats.reserve(count, 0, 0);
    const std::array requests = {request};
    backend().head_stats(x->rows(count), *norm, 1e-5F, *output, requests, stats);
    return stats;
  };
  const HeadStats together = stats_of(0, kRows);
  for (const std::uint32_t r : {0U, 529U, 530U, 599U}) {
    const HeadStats alone = stats_of(r, 1);
    EXPECT_EQ(alone.sampled[0], together.sampled[r]);
    expect_same({alone.entropy[0], alone.sampled_prob[0]},
                {together.entropy[r], together.sampled_prob[r]});
  }
}

TEST_F(CudaHead, LogitsAgreeWithOracle) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::f16}) {
    SCOPED_TRACE(dtype_name(dtype));
    WeightFile file;
    file.add("output", dtype, 177, 512, 1);
    file.add_vector("norm", random_floats(512, 2, 2));
    const auto values = random_floats(std::size_t{5} * 512, 3, 2);
    const Rows normed = oracle_norm(to_rows(values, 512), file.vector("norm"), 1e-5);
    const auto output = file.import_to(backend(), "output");
    const auto norm = file.import_to(backend(), "norm", WeightRole::replicated);
    const auto x = fill(values, 512);
    std::vector<float> got(std::size_t{5} * 177);
    backend().logits(x->rows(5), *norm, 1e-5F, *output, got);
    const Rows want = oracle_linear(file.decoded("output"), normed);
    expect_near(got, want, half_tolerance(file.decoded("output"), normed));
    EXPECT_LT(relative_error(got, want), 6e-4);
  }
}

}  // namespace
}  // namespace dllm::test

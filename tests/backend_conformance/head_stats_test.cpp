// head_stats of every backend against the oracle: compiled into the program of each (subjects.hpp).
//
// Logits are chosen, not computed: the output matrix has one input column per row to choose,
// `hidden` is 1 there and the norm is the identity (conformance.cpp, read()), so logit v is the
// weight v, -inf and NaN included. They are binary16 numbers, so products are exact whatever the
// operands; many tie, which is the point. Small vocabularies are enumerated over settings; a larger
// one spans several tiles and row blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "conformance.hpp"
#include "head_stats_oracle.hpp"
#include "subjects.hpp"

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

// A head with given logits: columns[i][v] is the logit v of a row that selects column i.
class Head {
 public:
  Head(const Subject& subject, const std::vector<std::vector<float>>& columns)
      : backend_(subject.make()), n_cols_(columns.size()) {
    Rows weights;
    for (std::size_t v = 0; v < columns[0].size(); ++v) {
      weights.emplace_back();
      for (const auto& column : columns) weights.back().push_back(static_cast<double>(column[v]));
    }
    file_.add_matrix("output", weights);
    file_.add_vector("norm", std::vector<float>(n_cols_, std::ldexp(1.0F, 50)));
    output_ = file_.import_to(*backend_, "output");
    norm_ = file_.import_to(*backend_, "norm", WeightRole::replicated);
  }

  // rows[r] selects a column.
  HeadStats run(const std::vector<std::size_t>& rows, const std::vector<StatsRequest>& requests) {
    const auto n = static_cast<std::uint32_t>(rows.size());
    std::vector<float> hidden(rows.size() * n_cols_, 0.0F);
    for (std::size_t r = 0; r < rows.size(); ++r) hidden[r * n_cols_ + rows[r]] = 1;
    const auto x = make_filled(*backend_, hidden, static_cast<std::uint32_t>(n_cols_));
    HeadStats stats;
    stats.reserve(n, 8, 8);
    backend_->head_stats(x->rows(n), *norm_, std::ldexp(1.0F, 100), *output_, requests, stats);
    return stats;
  }

 private:
  std::unique_ptr<Backend> backend_;
  WeightFile file_;
  std::size_t n_cols_;
  std::unique_ptr<Weight> output_;
  std::unique_ptr<Weight> norm_;
};

// Probabilities: f32 exponentials are off by 2.5e-7 each, the draw and the filter are exact.
void expect_prob(double got, double want) { EXPECT_NEAR(got, want, 1e-6 + 2e-6 * want); }

void expect_row(const HeadStats& got, std::uint32_t row, const StatsRequest& request,
                const RowStats& want) {
  ASSERT_EQ(got.non_finite[row] != 0, want.non_finite);
  if (want.non_finite) return;
  EXPECT_EQ(got.argmax[row], want.argmax);
  EXPECT_EQ(got.sampled[row], want.sampled) << "lead " << want.sampled_lead;
  expect_prob(static_cast<double>(got.sampled_prob[row]), want.sampled_prob);
  expect_prob(static_cast<double>(got.top1_prob[row]), want.top1_prob);
  expect_prob(static_cast<double>(got.top2_prob[row]), want.top2_prob);
  EXPECT_NEAR(static_cast<double>(got.entropy[row]), want.entropy, 5e-6 + 2e-6 * want.entropy);
  if (want.log_sum_exp == kMinusInfinity) {
    EXPECT_EQ(static_cast<double>(got.log_sum_exp[row]), want.log_sum_exp);
  } else {  // f32 has no more than 3.4e38: at tiny temperatures it saturates
    const double most = std::numeric_limits<float>::max();
    const double lse = std::clamp(want.log_sum_exp, -most, most);
    EXPECT_NEAR(static_cast<double>(got.log_sum_exp[row]), lse, 2e-6 + 2e-7 * std::abs(lse));
  }
  for (std::size_t j = 0; j < want.prob_of.size(); ++j)
    expect_prob(static_cast<double>(got.prob_of[row * got.prob_of_stride + j]), want.prob_of[j]);
  if ((request.want & kStatTopList) == 0) return;
  for (std::size_t j = 0; j < want.top_ids.size(); ++j) {
    EXPECT_EQ(got.top_ids[row * got.top_stride + j], want.top_ids[j]) << "place " << j;
    expect_prob(static_cast<double>(got.top_probs[row * got.top_stride + j]), want.top_probs[j]);
  }
}

std::vector<double> as_double(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

std::string describe(const StatsRequest& r) {
  return "T " + std::to_string(r.temperature) + " top_p " + std::to_string(r.top_p) + " top_k " +
         std::to_string(r.top_k) + (r.domain == Domain::raw ? " raw" : " filtered") +
         (r.allow_all ? " allow_all" : "") + " seed " + std::to_string(r.seed);
}

class HeadStatsOp : public SubjectsTest {};

// Every combination of temperature, filters, domain and allowance.
template <typename Visit>
void for_each_setting(StatsRequest request, const Visit& visit) {
  for (const float temperature : {0.0F, 1e-38F, 0.3F, 1.0F, 4.0F})
    for (const float top_p : {1.0F, 0.9F, 0.5F, 1e-6F})
      for (const std::uint32_t top_k : {0U, 1U, 3U, 7U, 20U})
        for (const Domain domain : {Domain::raw, Domain::filtered})
          for (const bool allow_all : {false, true}) {
            request.temperature = temperature;
            request.top_p = top_p;
            request.top_k = top_k;
            request.domain = domain;
            request.allow_all = allow_all;
            visit(request);
          }
}

TEST_F(HeadStatsOp, AgreesWithOracleOnEverySettingOfSmallVocabularies) {
  const std::vector<std::vector<float>> columns = {
      {0.5F, -1, 3, 2.5F, 0, -2, 1, 2},       // no ties
      {1, 1, 1, 1, 1, 1, 1, 1},               // all tie
      {2, -3, 2, 0, 2, 0, -3, 9},             // ties at the top, best in the vocabulary tail
      {-80, 30, -200, 30.5F, 0, 5, 29, -60},  // steep
      {-kInf, 2, -kInf, 1, 2, -kInf, 0, -kInf}};
  const std::array<std::uint32_t, 3> positions = {4, 0, 77};
  const std::array<std::int32_t, 1> both = {1};
  const std::array<std::int32_t, 2> confidence = {2, 3};
  const std::array<std::int32_t, 3> prob_of = {0, 2, 7};
  for (const Subject& subject : subjects()) {
    for (const auto& column : columns) {
      Head head(subject, {column});
      for (const bool suppressing : {false, true}) {
        StatsRequest request;
        request.positions = positions;
        request.prob_of = prob_of;
        request.top_list = 8;
        request.mask_id = 5;
        request.n_tokens = 7;
        request.step = 3;
        if (suppressing) {
          request.suppress_both = both;
          request.suppress_confidence = confidence;
        }
        // Without a top list the unfiltered settings take the streaming way.
        for (const std::uint32_t want : {kEverything, kEverything & ~kStatTopList}) {
          std::vector<StatsRequest> settings;
          for_each_setting(request, [&](StatsRequest setting) {
            setting.first_row = 3 * static_cast<std::uint32_t>(settings.size());
            setting.seed = 1000 + settings.size();
            setting.want = want;
            settings.push_back(setting);
          });
          const HeadStats got = head.run(std::vector<std::size_t>(3 * settings.size()), settings);
          for (const StatsRequest& setting : settings) {
            SCOPED_TRACE(subject.name + " " + describe(setting) +
                         (suppressing ? " suppressing" : ""));
            for (std::uint32_t r = 0; r < 3; ++r)
              expect_row(got, setting.first_row + r, setting,
                         oracle_row_stats(as_double(column), setting, positions[r]));
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

void expect_random_settings_agree(std::uint32_t n_vocab, int n_trials) {
  SCOPED_TRACE(std::to_string(n_vocab) + " ids");
  std::vector<std::vector<float>> columns;
  for (std::uint64_t i = 0; i < 3; ++i)
    columns.push_back(random_logits(n_vocab, i, 4.0F + 4.0F * static_cast<float>(i)));
  columns[0][700] = columns[0][4300] = 9;  // a tie across tiles
  std::mt19937_64 random(1);
  for (const Subject& subject : subjects()) {
    Head head(subject, columns);
    for (int trial = 0; trial < n_trials; ++trial) {
      const auto pick = [&](auto... choices) {
        const std::array values = {choices...};
        return values[random() % values.size()];
      };
      const std::array<std::uint32_t, 3> positions = {static_cast<std::uint32_t>(random() % 99),
                                                      200, 201};
      const std::array<std::int32_t, 2> prob_of = {3, 4500};
      const std::array<std::int32_t, 2> confidence = {700, 4499};
      const std::array<std::int32_t, 2> both = {4300, 12};
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
      if (pick(true, false, false)) request.suppress_both = both;
      request.allow_all = pick(true, false);
      request.mask_id = 77;
      request.n_tokens = n_vocab - 19;
      request.seed = random();
      request.step = static_cast<std::uint32_t>(trial);
      request.guided = pick(true, false);
      request.guidance_first_row = 3;
      request.guidance_scale = 1.5F;
      SCOPED_TRACE(subject.name + " " + describe(request));
      const std::vector<std::size_t> rows = {0, 1, 2, 1, 2, 0};
      const HeadStats got = head.run(rows, {request});
      for (std::uint32_t r = 0; r < 3; ++r) {
        std::vector<double> logits = as_double(columns[rows[r]]);
        if (request.guided)  // exact in f32 on this grid
          logits = oracle_guided(logits, as_double(columns[rows[r + 3]]), 1.5);
        expect_row(got, r, request, oracle_row_stats(logits, request, positions[r]));
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Several tiles of statistics, the last weight tile 29 and 60 wide. Quads of ids end with the
// vocabulary or do not; of the second, tiles are asked for as a whole, or without some ids.
TEST_F(HeadStatsOp, AgreesWithOracleOnRandomSettingsOfALargerVocabulary) {
  expect_random_settings_agree(4509, 40);
  if (testing::Test::HasFailure()) return;
  expect_random_settings_agree(8508, 15);
}

TEST_F(HeadStatsOp, SeveralRequestsWithOwnSettingsShareOnePass) {
  const std::vector<std::vector<float>> columns = {random_logits(600, 1, 5),
                                                   random_logits(600, 2, 5)};
  const std::array<std::uint32_t, 2> first = {0, 1};
  const std::array<std::uint32_t, 1> second = {9};
  StatsRequest streamed;
  streamed.positions = first;
  streamed.want = kEverything & ~(kStatTopList | kStatProbOf);
  streamed.n_tokens = 600;
  StatsRequest stored = streamed;
  stored.first_row = 2;
  stored.positions = second;
  stored.temperature = 0.8F;
  stored.top_p = 0.7F;
  stored.domain = Domain::filtered;
  stored.seed = 5;
  for (const Subject& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    Head head(subject, columns);
    for (const auto& requests : {std::vector{streamed, stored}, std::vector{stored, streamed}}) {
      const HeadStats got = head.run({0, 1, 0}, requests);
      expect_row(got, 0, streamed, oracle_row_stats(as_double(columns[0]), streamed, 0));
      expect_row(got, 1, streamed, oracle_row_stats(as_double(columns[1]), streamed, 1));
      expect_row(got, 2, stored, oracle_row_stats(as_double(columns[0]), stored, 9));
    }
  }
}

TEST_F(HeadStatsOp, FlagsRowsThatAreNotFinite) {
  const std::vector<std::vector<float>> bad = {{0, std::numeric_limits<float>::quiet_NaN(), 1, 2},
                                               {0, kInf, 1, 2},
                                               {-kInf, -kInf, -kInf, 5}};
  const std::array<std::uint32_t, 1> positions = {0};
  for (const Subject& subject : subjects()) {
    for (const auto& column : bad) {
      Head head(subject, {column});
      for (const bool whole : {false, true}) {
        StatsRequest request;
        request.positions = positions;
        request.want = kEverything & ~(whole ? 0U : kStatTopList);
        request.top_list = 2;
        request.mask_id = 3;
        request.n_tokens = 4;
        EXPECT_EQ(head.run({0}, {request}).non_finite[0], 1) << subject.name;
      }
    }
  }
}

TEST_F(HeadStatsOp, AWeightThatIsNaNFlagsItsRows) {
  for (const Subject& subject : subjects()) {
    const auto backend = subject.make();
    std::vector<std::byte> blocks = random_blocks(DType::q4_k, 40, 256, 1);
    const std::size_t row = row_bytes(DType::q4_k, 256);
    blocks[17 * row] = std::byte{0xFF};  // d of row 17 becomes NaN
    blocks[17 * row + 1] = std::byte{0x7F};
    GgufWriter writer;
    writer.add_tensor("output", DType::q4_k, {256, 40}, blocks);
    writer.add_tensor("norm", DType::f32, {256}, std::vector<float>(256, 1.0F));
    TemporaryDirectory folder;
    writer.write(folder.path() / "nan.gguf");
    const auto file = GgufFile::open(folder.path() / "nan.gguf");
    const auto output =
        backend->import_weight(file, file->tensor("output"), WeightRole::column_split);
    const auto norm = backend->import_weight(file, file->tensor("norm"), WeightRole::replicated);
    const auto x = make_filled(*backend, random_floats(512, 3), 256);
    const std::array<std::uint32_t, 2> positions = {0, 1};
    StatsRequest request;
    request.positions = positions;
    request.want = kStatArgmax;
    request.n_tokens = 40;
    HeadStats stats;
    stats.reserve(2, 0, 0);
    const std::array requests = {request};
    backend->head_stats(x->rows(2), *norm, 1e-5F, *output, requests, stats);
    EXPECT_EQ(stats.non_finite[0], 1) << subject.name;
    EXPECT_EQ(stats.non_finite[1], 1) << subject.name;
  }
}

TEST_F(HeadStatsOp, TopListLongerThanTheVocabularyEndsWithNoIds) {
  const std::array<std::uint32_t, 1> positions = {0};
  StatsRequest request;
  request.positions = positions;
  request.want = kStatTopList;
  request.top_list = 5;
  request.n_tokens = 3;
  for (const Subject& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    Head head(subject, {{1, -kInf, 3}});
    const HeadStats got = head.run({0}, {request});
    EXPECT_EQ(std::vector<std::int32_t>(got.top_ids.begin(), got.top_ids.begin() + 5),
              (std::vector<std::int32_t>{2, 0, 1, -1, -1}));
    EXPECT_EQ(got.top_probs[2], 0.0F);
  }
}

}  // namespace
}  // namespace dllm::test

// head_stats and logits against the oracle.
//
// Logits are chosen, not computed: the output matrix has one input column, `hidden` is 1 and the
// norm is the identity (conformance.cpp, read()), so logit v is the weight v, -inf and NaN
// included. Small vocabularies are enumerated over settings; a larger one spans several tiles and
// row blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "conformance.hpp"
#include "head_stats_oracle.hpp"

namespace dllm::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kEverything = kStatSampled | kStatArgmax | kStatTop2 | kStatEntropy |
                                      kStatLogSumExp | kStatProbOf | kStatTopList;

// A head with given logits: columns[i][v] is the logit v of a row that selects column i.
class Head {
 public:
  Head(const std::string& isa, const std::vector<std::vector<float>>& columns, int threads = 2)
      : backend_(make_backend({isa, "exact", threads})), n_cols_(columns.size()) {
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

TEST(HeadStatsOp, AgreesWithOracleOnEverySettingOfSmallVocabularies) {
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
  for (const std::string& isa : usable_isas()) {
    for (const auto& column : columns) {
      Head head(isa, {column});
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
            SCOPED_TRACE(isa + " " + describe(setting) + (suppressing ? " suppressing" : ""));
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

// 1,501 ids: three tiles of statistics, the last weight tile 29 wide.
TEST(HeadStatsOp, AgreesWithOracleOnRandomSettingsOfALargerVocabulary) {
  constexpr std::size_t kVocab = 1501;
  std::vector<std::vector<float>> columns;
  for (std::uint64_t i = 0; i < 3; ++i)
    columns.push_back(random_floats(kVocab, i, 4.0F + 5.0F * i));
  columns[0][700] = columns[0][1300] = 9;  // a tie across tiles
  std::mt19937_64 random(1);
  for (const std::string& isa : usable_isas()) {
    Head head(isa, columns);
    for (int trial = 0; trial < 60; ++trial) {
      const auto pick = [&](auto... choices) {
        const std::array values = {choices...};
        return values[random() % values.size()];
      };
      const std::array<std::uint32_t, 3> positions = {static_cast<std::uint32_t>(random() % 99),
                                                      200, 201};
      const std::array<std::int32_t, 2> prob_of = {3, 1500};
      const std::array<std::int32_t, 2> confidence = {700, 1499};
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
      request.n_tokens = 1490;
      request.seed = random();
      request.step = static_cast<std::uint32_t>(trial);
      request.guided = pick(true, false);
      request.guidance_first_row = 3;
      request.guidance_scale = 1.5F;
      SCOPED_TRACE(isa + " " + describe(request));
      const std::vector<std::size_t> rows = {0, 1, 2, 1, 2, 0};
      const HeadStats got = head.run(rows, {request});
      for (std::uint32_t r = 0; r < 3; ++r) {
        std::vector<double> logits = as_double(columns[rows[r]]);
        if (request.guided) {
          logits = oracle_guided(logits, as_double(columns[rows[r + 3]]), 1.5);
          // The backend blends in f32.
          for (std::size_t v = 0; v < kVocab; ++v) {
            const float c = columns[rows[r]][v];
            const float u = columns[rows[r + 3]][v];
            const float blended = u + 2.5F * (c - u);
            ASSERT_NEAR(static_cast<double>(blended), logits[v], 1e-5);
            logits[v] = static_cast<double>(blended);
          }
        }
        expect_row(got, r, request, oracle_row_stats(logits, request, positions[r]));
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(HeadStatsOp, SeveralRequestsWithOwnSettingsShareOnePass) {
  const std::vector<std::vector<float>> columns = {random_floats(600, 1, 5),
                                                   random_floats(600, 2, 5)};
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
  for (const std::string& isa : usable_isas()) {
    SCOPED_TRACE(isa);
    Head head(isa, columns);
    for (const auto& requests : {std::vector{streamed, stored}, std::vector{stored, streamed}}) {
      const HeadStats got = head.run({0, 1, 0}, requests);
      expect_row(got, 0, streamed, oracle_row_stats(as_double(columns[0]), streamed, 0));
      expect_row(got, 1, streamed, oracle_row_stats(as_double(columns[1]), streamed, 1));
      expect_row(got, 2, stored, oracle_row_stats(as_double(columns[0]), stored, 9));
    }
  }
}

TEST(HeadStatsOp, FlagsRowsThatAreNotFinite) {
  const std::vector<std::vector<float>> bad = {{0, std::numeric_limits<float>::quiet_NaN(), 1, 2},
                                               {0, kInf, 1, 2},
                                               {-kInf, -kInf, -kInf, 5}};
  const std::array<std::uint32_t, 1> positions = {0};
  for (const std::string& isa : usable_isas()) {
    for (const auto& column : bad) {
      Head head(isa, {column});
      for (const bool whole : {false, true}) {
        StatsRequest request;
        request.positions = positions;
        request.want = kEverything & ~(whole ? 0U : kStatTopList);
        request.top_list = 2;
        request.mask_id = 3;
        request.n_tokens = 4;
        EXPECT_EQ(head.run({0}, {request}).non_finite[0], 1) << isa;
      }
    }
  }
}

TEST(HeadStatsOp, AWeightThatIsNaNFlagsItsRows) {
  for (const std::string& isa : usable_isas()) {
    auto backend = make_backend({isa});
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
    EXPECT_EQ(stats.non_finite[0], 1) << isa;
    EXPECT_EQ(stats.non_finite[1], 1) << isa;
  }
}

TEST(HeadStatsOp, TopListLongerThanTheVocabularyEndsWithNoIds) {
  Head head("portable", {{1, -kInf, 3}});
  const std::array<std::uint32_t, 1> positions = {0};
  StatsRequest request;
  request.positions = positions;
  request.want = kStatTopList;
  request.top_list = 5;
  request.n_tokens = 3;
  const HeadStats got = head.run({0}, {request});
  EXPECT_EQ(std::vector<std::int32_t>(got.top_ids.begin(), got.top_ids.begin() + 5),
            (std::vector<std::int32_t>{2, 0, 1, -1, -1}));
  EXPECT_EQ(got.top_probs[2], 0.0F);
}

std::vector<RunSetup> head_setups() {
  std::vector<RunSetup> setups;
  for (const std::string& isa : usable_isas()) {
    setups.push_back({isa, "exact"});
    if (has_fast_products(isa)) setups.push_back({isa, "fast"});
  }
  return setups;
}

// Quantised head: the same row alone, in company, guided or not, with any thread count.
TEST(HeadStatsOp, RowsAreTheSameAloneAndInCompanyAndForAnyThreads) {
  constexpr std::uint32_t kVocab = 1100;
  constexpr std::uint32_t kRows = 9;
  WeightFile file;
  file.add("output", DType::q6_k, kVocab, 256, 1);
  file.add_vector("norm", random_floats(256, 2, 2));
  const auto values = random_floats(std::size_t{kRows} * 256, 3, 2);
  for (const RunSetup& setup : head_setups()) {
    HeadStats first;
    for (const int threads : {1, 2, 7}) {
      auto backend = make_backend({setup.isa, setup.products, threads});
      const auto output = file.import_to(*backend, "output");
      const auto norm = file.import_to(*backend, "norm", WeightRole::replicated);
      const auto run = [&](std::uint32_t begin, std::uint32_t count, float top_p) {
        std::vector<std::uint32_t> positions;
        for (std::uint32_t r = 0; r < count; ++r) positions.push_back(begin + r);
        StatsRequest request;
        request.positions = positions;
        request.want = kEverything & ~(kStatTopList | kStatProbOf);
        request.temperature = 1;
        request.top_p = top_p;
        request.n_tokens = kVocab;
        request.seed = 3;
        const std::array requests = {request};
        const auto at = values.begin() + std::ptrdiff_t{begin} * 256;
        const auto x = make_filled(*backend, {at, at + std::ptrdiff_t{count} * 256}, 256);
        HeadStats stats;
        stats.reserve(count, 0, 0);
        backend->head_stats(x->rows(count), *norm, 1e-5F, *output, requests, stats);
        return stats;
      };
      for (const float top_p : {1.0F, 0.8F}) {
        SCOPED_TRACE(setup.isa + " " + setup.products + " threads " + std::to_string(threads));
        const HeadStats together = run(0, kRows, top_p);
        if (threads == 1 && top_p == 1.0F) first = together;
        if (top_p == 1.0F) {
          expect_same(together.entropy, first.entropy);
          EXPECT_EQ(together.sampled, first.sampled);
        }
        for (std::uint32_t r = 0; r < kRows; ++r) {
          const HeadStats alone = run(r, 1, top_p);
          EXPECT_EQ(alone.sampled[0], together.sampled[r]);
          EXPECT_EQ(alone.argmax[0], together.argmax[r]);
          expect_same({alone.sampled_prob[0], alone.entropy[0], alone.log_sum_exp[0]},
                      {together.sampled_prob[r], together.entropy[r], together.log_sum_exp[r]});
        }
      }
    }
  }
}

TEST(Logits, AgreeWithOracleForQuantisedAndPlainWeights) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::f16}) {
    WeightFile file;
    file.add("output", dtype, 77, 512, 1);
    file.add_vector("norm", random_floats(512, 2, 2));
    const auto values = random_floats(std::size_t{5} * 512, 3, 2);
    const Rows normed = oracle_norm(to_rows(values, 512), file.vector("norm"), 1e-5);
    for (const RunSetup& setup : head_setups()) {
      SCOPED_TRACE(setup.name() + " " + std::string(dtype_name(dtype)));
      auto backend = make_backend(setup);
      const auto output = file.import_to(*backend, "output");
      const auto norm = file.import_to(*backend, "norm", WeightRole::replicated);
      const auto x = make_filled(*backend, values, 512);
      std::vector<float> got(std::size_t{5} * 77);
      backend->logits(x->rows(5), *norm, 1e-5F, *output, got);
      const Rows& decoded = file.decoded("output");
      expect_near(got, oracle_linear(decoded, normed),
                  dtype == DType::f16 ? f32_tolerance(decoded, normed)
                  : setup.products == "fast"
                      ? fast_tolerance(decoded, normed)
                      : int8_tolerance(decoded, normed, steps_of(setup, dtype)));
    }
  }
}

}  // namespace
}  // namespace dllm::test

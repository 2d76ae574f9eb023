// products=mixed: some matrices are multiplied as int8, the others in binary16, whatever is beside
// them (which: weight_sizes_test.cpp). What each way computes is held to the bits of products=f16
// and products=int8, and, where one's result is the other's input, to the arithmetic that both
// promise.
#include <array>
#include <string>
#include <vector>

#include "attention_case.hpp"
#include "mixed_support.hpp"

namespace dllm::test {
namespace {

constexpr double kHalfError = 6e-4;  // of binary16 products (linear_test.cpp)

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

// What follows attention in a layer, of every backend: the output product reads what `out` holds
// when it runs, whoever wrote it last, and a row of it depends on its own sequence alone. A backend
// may keep another form of attention's result for that product; these are the ways to find it
// stale.
#include <cmath>
#include <limits>

#include "conformance.hpp"
#include "subjects.hpp"

namespace dllm::test {
namespace {

constexpr std::uint32_t kHeads = 4;
constexpr std::uint32_t kKvHeads = 2;
constexpr std::uint32_t kDim = 64;
constexpr std::uint32_t kWidth = kHeads * kDim;
constexpr std::uint32_t kKvWidth = kKvHeads * kDim;

// A layer's attention and its output product, on one backend.
class Layer {
 public:
  Layer(Backend& backend, const std::vector<std::uint32_t>& lengths, float values = 1)
      : backend_(backend), spans_(backend.make_attention_spans(8)) {
    std::vector<AttentionSpan> list;
    for (const std::uint32_t n : lengths) {
      list.push_back({n_, n, n_, n, MaskKind::full});
      n_ += n;
    }
    spans_->write(list);
    q = random_floats(std::size_t{n_} * kWidth, 1, 2);
    k = random_floats(std::size_t{n_} * kKvWidth, 2, 2);
    v = random_floats(std::size_t{n_} * kKvWidth, 3, values);
    file_.add("w", DType::q8_0, kWidth, kWidth, 4);
    w_ = file_.import_to(backend, "w", WeightRole::row_split);
    out_ = backend.make_buffer(n_, kWidth);
    other_out_ = backend.make_buffer(n_, kWidth);
    all_ = backend.make_index_list(n_);
    std::vector<std::int32_t> rows(n_);
    for (std::uint32_t r = 0; r < n_; ++r) rows[r] = static_cast<std::int32_t>(r);
    all_->write(rows);
  }

  std::uint32_t n() const { return n_; }
  TensorView out() const { return out_->rows(n_); }
  TensorView other_out() const { return other_out_->rows(n_); }
  const IndexList& all() const { return *all_; }
  const Weight& weight() const { return *w_; }

  void attend_to(TensorView out) {
    const auto q_rows = make_filled(backend_, q, kWidth);
    const auto k_rows = make_filled(backend_, k, kKvWidth);
    const auto v_rows = make_filled(backend_, v, kKvWidth);
    backend_.attention(q_rows->rows(n_), k_rows->rows(n_), v_rows->rows(n_), *spans_,
                       {kHeads, kKvHeads, kDim, 0.125F}, out);
  }

  // W x of the rows themselves.
  std::vector<float> product(TensorView x) {
    const auto residual =
        make_filled(backend_, std::vector<float>(std::size_t{x.n_rows} * kWidth, 0.0F), kWidth);
    backend_.linear_residual(x, *w_, nullptr, residual->rows(x.n_rows));
    return read(backend_, residual->rows(x.n_rows));
  }

  // The same of a copy, which no attention has written.
  std::vector<float> product_of_copy(TensorView x) {
    const auto copy = backend_.make_buffer(n_, kWidth);
    backend_.copy_rows(out_of(x), *all_, copy->rows(n_));
    return product({copy.get(), x.n_rows, kWidth});
  }

  std::vector<float> q, k, v;

 private:
  TensorView out_of(TensorView x) const { return x.buffer->rows(n_); }

  Backend& backend_;
  std::unique_ptr<AttentionSpans> spans_;
  std::uint32_t n_ = 0;
  WeightFile file_;
  std::unique_ptr<Weight> w_;
  std::unique_ptr<Buffer> out_, other_out_;
  std::unique_ptr<IndexList> all_;
};

class AttentionOutput : public SubjectsTest {
 protected:
  template <typename Body>
  void on_every_subject(const Body& body) {
    for (const Subject& subject : subjects()) {
      SCOPED_TRACE(subject.name);
      const auto backend = subject.make();
      body(*backend);
    }
  }
};

TEST_F(AttentionOutput, IsReadByTheProductAsItsRowsAre) {
  on_every_subject([](Backend& backend) {
    Layer layer(backend, {50, 3, 37});
    layer.attend_to(layer.out());
    const auto got = layer.product(layer.out());
    expect_same(got, layer.product_of_copy(layer.out()));
    EXPECT_NE(got, std::vector<float>(got.size(), 0.0F));
  });
}

TEST_F(AttentionOutput, OfItsFirstRowsAloneIsTheSame) {
  on_every_subject([](Backend& backend) {
    Layer layer(backend, {50, 21});
    layer.attend_to(layer.out());
    const TensorView first = {layer.out().buffer, 29, kWidth};
    const auto got = layer.product(first);
    expect_same(got, layer.product_of_copy(first));
  });
}

TEST_F(AttentionOutput, ThatWasOverwrittenIsReadAnew) {
  on_every_subject([](Backend& backend) {
    Layer layer(backend, {45});
    const auto others = make_filled(backend, layer.q, kWidth);
    layer.attend_to(layer.out());
    backend.copy_rows(others->rows(layer.n()), layer.all(), layer.out());
    expect_same(layer.product(layer.out()), layer.product(others->rows(layer.n())));
  });
}

TEST_F(AttentionOutput, ThatAnotherProductWritesIsReadAnew) {
  on_every_subject([](Backend& backend) {
    Layer layer(backend, {45});
    const auto others = make_filled(backend, layer.q, kWidth);
    layer.attend_to(layer.out());
    const std::vector<Projection> to_out = {{&layer.weight(), nullptr, layer.out()}};
    backend.norm_linear(others->rows(layer.n()), nullptr, 0, to_out);
    expect_same(layer.product(layer.out()), layer.product_of_copy(layer.out()));
  });
}

TEST_F(AttentionOutput, ThatWasChangedInPlaceIsReadAnew) {
  on_every_subject([](Backend& backend) {
    Layer layer(backend, {45});
    const auto others = make_filled(backend, layer.q, kWidth);
    RopeParams rope;
    rope.n_heads = kHeads;
    rope.head_dim = rope.n_rot = kDim;
    layer.attend_to(layer.out());
    backend.rope(layer.out(), layer.all(), rope);
    expect_same(layer.product(layer.out()), layer.product_of_copy(layer.out()));
    layer.attend_to(layer.out());
    backend.linear_residual(others->rows(layer.n()), layer.weight(), nullptr, layer.out());
    expect_same(layer.product(layer.out()), layer.product_of_copy(layer.out()));
  });
}

TEST_F(AttentionOutput, IsTheSameAfterOtherProducts) {
  on_every_subject([](Backend& backend) {
    Layer layer(backend, {45});
    const auto others = make_filled(backend, layer.q, kWidth);
    layer.attend_to(layer.out());
    const auto want = layer.product_of_copy(layer.out());
    layer.attend_to(layer.out());
    (void)layer.product(others->rows(layer.n()));
    expect_same(layer.product(layer.out()), want);
    layer.attend_to(layer.out());
    const auto projected = backend.make_buffer(layer.n(), kWidth);
    const std::vector<Projection> elsewhere = {
        {&layer.weight(), nullptr, projected->rows(layer.n())}};
    backend.norm_linear(others->rows(layer.n()), nullptr, 0, elsewhere);
    expect_same(layer.product(layer.out()), want);
  });
}

TEST_F(AttentionOutput, OfTwoCallsIsToldApart) {
  on_every_subject([](Backend& backend) {
    Layer layer(backend, {45});
    layer.attend_to(layer.out());
    const auto first = layer.product_of_copy(layer.out());
    layer.attend_to(layer.out());
    std::swap(layer.q[0], layer.q[kWidth]);
    layer.v.assign(layer.v.rbegin(), layer.v.rend());
    layer.attend_to(layer.other_out());
    const auto got = layer.product(layer.out());
    expect_same(got, first);
    const auto second = layer.product(layer.other_out());
    expect_same(second, layer.product_of_copy(layer.other_out()));
    EXPECT_NE(got, second);
  });
}

// The first rows of values [., width].
std::vector<float> first_rows(const std::vector<float>& values, std::uint32_t n,
                              std::uint32_t width) {
  return {values.begin(), values.begin() + std::ptrdiff_t{n} * width};
}

// A sequence of 40 rows beside another of `length` rows, whose values are 2^`exponent` times as
// large, and alone, when no list of spans knows of the other any more. Its own values are 2^`own`
// times as large in the second head.
void expect_same_beside(Backend& backend, std::uint32_t length, int exponent, int own = 0) {
  constexpr std::uint32_t kOwn = 40;
  std::vector<float> q, k, v, together;
  {
    Layer layer(backend, {kOwn, length});
    for (std::size_t i = std::size_t{kOwn} * kKvWidth; i < layer.v.size(); ++i)
      layer.v[i] = std::ldexp(layer.v[i], exponent);
    for (std::size_t i = 0; i < std::size_t{kOwn} * kKvWidth; ++i)
      if (i % kKvWidth >= kDim) layer.v[i] = std::ldexp(layer.v[i], own);
    layer.attend_to(layer.out());
    together = first_rows(layer.product(layer.out()), kOwn, kWidth);
    q = first_rows(layer.q, kOwn, kWidth);
    k = first_rows(layer.k, kOwn, kKvWidth);
    v = first_rows(layer.v, kOwn, kKvWidth);
  }
  Layer alone(backend, {kOwn});
  alone.q = q;
  alone.k = k;
  alone.v = v;
  alone.attend_to(alone.out());
  expect_same(alone.product(alone.out()), together);
}

// Whatever scales the rows of the output have.
TEST_F(AttentionOutput, OfASequenceIsTheSameBesideALargerOne) {
  on_every_subject([](Backend& backend) { expect_same_beside(backend, 30, 60); });
}

// Long ones may be another kernel's.
TEST_F(AttentionOutput, OfASequenceIsTheSameBesideALongOne) {
  on_every_subject([](Backend& backend) { expect_same_beside(backend, 210, 0); });
}

// Where binary16 has no full precision any more.
TEST_F(AttentionOutput, OfSmallHeadsIsTheSameBesideALongOne) {
  on_every_subject([](Backend& backend) {
    for (const int own : {-25, -28, -34}) expect_same_beside(backend, 210, 0, own);
  });
}

// A value of a key or a query that is not finite: in every row of its sequence, or in its own.
TEST_F(AttentionOutput, ThatIsNotFiniteShowsInItsRowsAlone) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto shows = [](const std::vector<float>& got, std::size_t row) {
    bool all = true;
    bool none = true;
    for (std::size_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
      all = all && !std::isfinite(got[i]);
      none = none && std::isfinite(got[i]);
    }
    EXPECT_TRUE(all || none) << "row " << row;
    return all;
  };
  on_every_subject([&](Backend& backend) {
    for (const float bad : {kNan, kInfinity}) {
      for (int where = 0; where < 3; ++where) {
        if (where == 1 && bad == kInfinity) continue;  // a score of -inf is a weight of 0
        SCOPED_TRACE(std::to_string(where) + " " + std::to_string(bad));
        Layer layer(backend, {20, 30});
        if (where == 0) layer.q[22 * kWidth + 3 * kDim + 5] = bad;
        if (where == 1) layer.k[22 * kKvWidth + kDim + 5] = bad;
        if (where == 2) layer.v[22 * kKvWidth + 7] = bad;
        layer.attend_to(layer.out());
        const auto got = layer.product(layer.out());
        for (std::size_t row = 0; row < 50; ++row)
          EXPECT_EQ(shows(got, row), where == 0 ? row == 22 : row >= 20) << row;
      }
    }
  });
}

}  // namespace
}  // namespace dllm::test

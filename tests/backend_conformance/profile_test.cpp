// What a backend reports to a ProfileSink: a stage per op, its work, every item of every thread,
// and nothing once the sink is gone.
#include "dllm/profile.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "conformance.hpp"

namespace dllm::test {
namespace {

constexpr std::uint32_t kRows = 6;
constexpr std::uint32_t kWidth = 64;
constexpr std::uint32_t kFfn = 96;
constexpr std::uint32_t kVocab = 1100;

class Recorder final : public ProfileSink {
 public:
  explicit Recorder(bool with_work) : with_work_(with_work) {}
  void span(const StageSpan& span) override { spans.push_back(span); }
  void move(Stage from, Stage to, std::int64_t ns) override {
    EXPECT_EQ(from, Stage::head);
    EXPECT_EQ(to, Stage::stats);
    moved_ns += ns;
  }
  bool wants_work() const noexcept override { return with_work_; }
  void work(const WorkSpan& span) override {
    const std::lock_guard lock(mutex_);
    works.push_back(span);
  }

  std::vector<StageSpan> ops() const {
    std::vector<StageSpan> found;
    for (const StageSpan& each : spans)
      if (!each.is_part) found.push_back(each);
    return found;
  }

  std::vector<StageSpan> spans;
  std::vector<WorkSpan> works;
  std::int64_t moved_ns = 0;

 private:
  bool with_work_;
  std::mutex mutex_;
};

// A backend with one layer's weights, and every op called once.
class Layer {
 public:
  Layer() : backend_(make_backend({usable_isas().back(), "exact", 2})) {
    file_.add("matrix", DType::q8_0, kWidth, kWidth, 1);
    file_.add("gate", DType::q8_0, kFfn, kWidth, 2);
    file_.add("up", DType::q8_0, kFfn, kWidth, 3);
    file_.add("down", DType::q8_0, kWidth, kFfn, 4);
    file_.add("output", DType::q8_0, kVocab, kWidth, 5);
    file_.add_vector("norm", std::vector<float>(kWidth, 1));
    matrix_ = file_.import_to(*backend_, "matrix");
    gate_ = file_.import_to(*backend_, "gate");
    up_ = file_.import_to(*backend_, "up");
    down_ = file_.import_to(*backend_, "down");
    output_ = file_.import_to(*backend_, "output");
    norm_ = file_.import_to(*backend_, "norm", WeightRole::replicated);
  }

  Backend& backend() { return *backend_; }

  HeadStats run() {
    const auto x = make_filled(*backend_, random_floats(kRows * kWidth, 7), kWidth);
    const auto q = backend_->make_buffer(kRows, kWidth);
    const auto out = backend_->make_buffer(kRows, kWidth);
    const auto list = backend_->make_index_list(kRows);
    const auto spans = backend_->make_attention_spans(1);
    list->write(std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
    spans->write(std::vector<AttentionSpan>{{0, kRows, 0, kRows, MaskKind::full}});
    started_ns = profile_now_ns();
    const Projection projection{matrix_.get(), nullptr, q->rows(kRows)};
    backend_->norm_linear(x->rows(kRows), norm_.get(), 1e-5F, std::span(&projection, 1));
    RopeParams rope;
    rope.n_heads = 2;
    rope.head_dim = rope.n_rot = kWidth / 2;
    backend_->rope(q->rows(kRows), *list, rope);
    const AttentionParams heads{2, 2, kWidth / 2, 0.2F};
    backend_->attention(q->rows(kRows), x->rows(kRows), x->rows(kRows), *spans, heads,
                        out->rows(kRows));
    backend_->linear_residual(out->rows(kRows), *matrix_, nullptr, x->rows(kRows));
    backend_->gated_mlp(x->rows(kRows), *norm_, 1e-5F, *gate_, *up_, *down_);
    backend_->copy_rows(x->rows(kRows), *list, q->rows(kRows));
    HeadStats stats;
    stats.reserve(kRows, 0, 0);
    StatsRequest request;
    const std::vector<std::uint32_t> positions{0, 1, 2, 3, 4, 5};
    request.positions = positions;
    request.want = kStatArgmax | kStatEntropy;
    request.n_tokens = kVocab;
    backend_->head_stats(q->rows(kRows), *norm_, 1e-5F, *output_, std::span(&request, 1), stats);
    return stats;
  }

  std::int64_t started_ns = 0;

 private:
  std::unique_ptr<Backend> backend_;
  WeightFile file_;
  std::unique_ptr<Weight> matrix_, gate_, up_, down_, output_, norm_;
};

TEST(Profile, EveryOpIsOneSpanOfItsStageInOrderWithItsWork) {
  Layer layer;
  Recorder recorder(false);
  ASSERT_TRUE(layer.backend().set_profile(&recorder));
  layer.run();
  const std::vector<StageSpan> ops = recorder.ops();
  // make_filled() looks its rows up in a table: the embed.
  const std::vector<Stage> want = {Stage::embed, Stage::qkv, Stage::attention, Stage::attention,
                                   Stage::out,   Stage::ffn, Stage::other,     Stage::head};
  ASSERT_EQ(ops.size(), want.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(ops[i].stage, want[i]) << i << " " << ops[i].name;
    EXPECT_LE(ops[i].begin_ns, ops[i].end_ns) << ops[i].name;
    if (i > 0) {
      EXPECT_GE(ops[i].begin_ns, ops[i - 1].end_ns) << ops[i].name;
    }
  }
  EXPECT_EQ(ops[1].integer_operations, 2.0 * kRows * kWidth * kWidth);
  EXPECT_EQ(ops[3].float_operations, 4.0 * kRows * kRows * kWidth);
  EXPECT_EQ(ops[5].integer_operations, 2.0 * kRows * kWidth * kFfn * 3);
  EXPECT_EQ(ops[7].integer_operations, 2.0 * kRows * kWidth * kVocab);
  EXPECT_GE(ops[4].weight_bytes, kWidth * kWidth);  // at least a byte a weight
  EXPECT_LT(ops[4].weight_bytes, kWidth * kWidth * 1.5);
}

TEST(Profile, PartsLieInsideTheirOpsAndStatisticsInsideTheHead) {
  Layer layer;
  Recorder recorder(false);
  layer.backend().set_profile(&recorder);
  layer.run();
  const std::vector<StageSpan> ops = recorder.ops();
  std::size_t parts = 0;
  for (const StageSpan& part : recorder.spans) {
    if (!part.is_part) continue;
    ++parts;
    EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [&](const StageSpan& op) {
      return op.begin_ns <= part.begin_ns && part.end_ns <= op.end_ns;
    })) << part.name;
  }
  EXPECT_GE(parts, 4U);  // the inputs of qkv, out, ffn and head
  EXPECT_GT(recorder.moved_ns, 0);
  EXPECT_LE(recorder.moved_ns, ops.back().end_ns - ops.back().begin_ns);
}

TEST(Profile, WorkItemsAreEachReportedByTheThreadThatDidThem) {
  Layer layer;
  Recorder recorder(true);
  layer.backend().set_profile(&recorder);
  layer.run();
  const std::vector<StageSpan> ops = recorder.ops();
  for (const WorkSpan& work : recorder.works) {
    EXPECT_LT(work.thread, 2U);
    EXPECT_GT(work.n_items, 0U);
    EXPECT_LE(work.begin_ns, work.end_ns);
    EXPECT_GE(work.begin_ns, ops.front().begin_ns);
    EXPECT_LE(work.end_ns, ops.back().end_ns);
  }
  // 64 outputs of one projection: every tile of it is in some hand-out of the first op.
  std::uint64_t items = 0;
  for (const WorkSpan& work : recorder.works)
    if (work.begin_ns >= ops[4].begin_ns && work.end_ns <= ops[4].end_ns) items += work.n_items;
  EXPECT_GE(items, kWidth / 32 + kRows / 4);
}

TEST(Profile, WithoutASinkNothingIsReportedAndResultsAreTheSame) {
  Layer layer;
  Recorder recorder(true);
  layer.backend().set_profile(&recorder);
  const HeadStats with = layer.run();
  layer.backend().set_profile(nullptr);
  const std::size_t before = recorder.spans.size() + recorder.works.size();
  const HeadStats without = layer.run();
  EXPECT_EQ(recorder.spans.size() + recorder.works.size(), before);
  EXPECT_EQ(with.argmax, without.argmax);
  EXPECT_EQ(with.entropy, without.entropy);
}

}  // namespace
}  // namespace dllm::test

// What a forward asks of its backend: the operations in the papers' order, the last layer on scored
// rows only, memory as announced, nothing allocated in a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "count_allocations.hpp"
#include "dllm/error.hpp"
#include "model_common/transformer.hpp"
#include "recording_backend.hpp"
#include "tiny_file.hpp"

namespace dllm::model_common {
namespace {

using test::RecordingBackend;
using test::TinyFile;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr Architecture kLlada{"llada", RopeKind::norm, false, false, "llada"};
constexpr Architecture kDream{"dream", RopeKind::neox, true, true, "dream"};
constexpr BatchLimits kLimits{
    .max_tokens = 12, .max_score_rows = 6, .max_sequences = 2, .max_sequence_length = 8};

class ForwardTest : public ::testing::Test {
 protected:
  void load(const Architecture& architecture) {
    const TinyFile file{std::string(architecture.name)};
    model = TransformerFactory(architecture).load(file.open(), backend, Log(), {});
    model->reserve(kLimits);
  }
  ForwardBatch batch(std::span<const std::uint32_t> score) const {
    return {ids, positions, sequences, score, false};
  }

  const std::vector<std::int32_t> ids{1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::int32_t> positions{0, 1, 2, 0, 1, 2, 3};
  const std::vector<SequenceSlice> sequences{{0, 3, MaskKind::full, {}},
                                             {3, 4, MaskKind::full, {}}};
  RecordingBackend backend;
  std::unique_ptr<Model> model;
  HeadStats stats;
};

TEST_F(ForwardTest, ReadsLikeThePaperAndNarrowsToScoredRowsInTheLastLayer) {
  load(kDream);
  const std::uint32_t score[] = {2, 4};
  model->forward_stats(batch(score), {}, stats);
  EXPECT_THAT(
      backend.ops,
      ElementsAre("embed token_embd.weight 7[7x32]",
                  "norm_linear blk.0.attn_norm.weight: blk.0.attn_q.weight+bias[7x32] "
                  "blk.0.attn_k.weight+bias[7x16] blk.0.attn_v.weight+bias[7x16] 7[7x32]",
                  "rope neox 4 7[7x32]", "rope neox 2 7[7x16]", "attention q[7x32] k[7x16] 7[7x32]",
                  "linear_residual blk.0.attn_output.weight 7[7x32]",
                  "gated_mlp blk.0.ffn_gate.weight 7[7x32]",
                  // Keys and values of every row, all else of the two scored ones.
                  "norm_linear blk.1.attn_norm.weight: blk.1.attn_k.weight+bias[7x16] "
                  "blk.1.attn_v.weight+bias[7x16] 7[7x32]",
                  "rope neox 2 7[7x16]", "copy_rows [7x32] 2[2x32]",
                  "norm_linear blk.1.attn_norm.weight: blk.1.attn_q.weight+bias[2x32] 2[2x32]",
                  "rope neox 4 2[2x32]", "attention q[2x32] k[7x16] 2[2x32]",
                  "linear_residual blk.1.attn_output.weight 2[2x32]",
                  "gated_mlp blk.1.ffn_gate.weight 2[2x32]", "head_stats output.weight 2[2x32]"));
}

TEST_F(ForwardTest, WritesIdsPositionsAndShiftedRows) {
  load(kDream);
  const std::uint32_t score[] = {2, 3};
  model->forward_stats(batch(score), {}, stats);
  ASSERT_EQ(backend.written.size(), 4U);
  EXPECT_THAT(backend.written[0], ElementsAreArray(ids));
  EXPECT_THAT(backend.written[1], ElementsAreArray(positions));
  EXPECT_THAT(backend.written[2], ElementsAre(1, 3));  // rows: before 2; 3 opens its sequence
  EXPECT_THAT(backend.written[3], ElementsAre(1, 0));  // their rope positions
  ASSERT_EQ(backend.last_spans.size(), 2U);
  EXPECT_EQ(backend.last_spans[1].q_begin, 1U);
  EXPECT_EQ(backend.last_spans[1].kv_begin, 3U);
  EXPECT_EQ(backend.last_spans[1].kv_count, 4U);
}

TEST_F(ForwardTest, StepKeyNamesTheShapes) {
  load(kLlada);
  const std::uint32_t score[] = {0, 1, 5};
  model->forward_stats(batch(score), {}, stats);
  EXPECT_EQ(backend.key.n_tokens, 7U);
  EXPECT_EQ(backend.key.n_score_rows, 3U);
  EXPECT_EQ(backend.key.n_sequences, 2U);
}

TEST_F(ForwardTest, NothingToScoreCostsNoForward) {
  load(kLlada);
  model->forward_stats(batch({}), {}, stats);
  EXPECT_THAT(backend.ops, ::testing::IsEmpty());
}

TEST_F(ForwardTest, LogitsNeedRoomForEveryRow) {
  load(kLlada);
  const std::uint32_t score[] = {0};
  std::vector<float> out(TinyFile::kVocab);
  model->forward_logits(batch(score), out);
  EXPECT_EQ(backend.ops.back(), "logits output.weight 1[1x32]");
  out.pop_back();
  EXPECT_THROW(model->forward_logits(batch(score), out), Error);
}

TEST_F(ForwardTest, ReserveTellsTheBackendTheWidestShapes) {
  load(kLlada);
  EXPECT_EQ(backend.limits.max_tokens, 12U);
  EXPECT_EQ(backend.limits.max_score_rows, 6U);
  EXPECT_EQ(backend.limits.width, 32U);
  EXPECT_EQ(backend.limits.max_cols, 48U);  // feed-forward length
  EXPECT_EQ(backend.limits.n_vocab, 40U);
  EXPECT_EQ(backend.limits.max_heads, 4U);
  EXPECT_EQ(backend.limits.max_sequence_length, 8U);
}

TEST_F(ForwardTest, AllocatesNothing) {
  load(kDream);
  const std::uint32_t score[] = {0, 3, 1, 4, 4, 6};
  backend.record = false;
  const std::size_t before = test::count_allocations();
  model->forward_stats(batch(score), {}, stats);
  EXPECT_EQ(test::count_allocations() - before, 0U);
}

}  // namespace
}  // namespace dllm::model_common

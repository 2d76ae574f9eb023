// Which row scores which position, and which queries see which keys.
#include "model_common/step_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dllm/error.hpp"
#include "error_of.hpp"

namespace dllm::model_common {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Sequences of the given lengths, ids and positions counted up inside each.
struct Pack {
  explicit Pack(std::vector<std::uint32_t> lengths) {
    for (const std::uint32_t length : lengths) {
      sequences.push_back({static_cast<std::uint32_t>(ids.size()), length, MaskKind::full, {}});
      for (std::uint32_t i = 0; i < length; ++i) {
        ids.push_back(static_cast<std::int32_t>(i));
        positions.push_back(static_cast<std::int32_t>(100 * sequences.size() + i));
      }
    }
  }
  ForwardBatch batch() const { return {ids, positions, sequences, score, raw_rows}; }

  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<SequenceSlice> sequences;
  std::vector<std::uint32_t> score;
  bool raw_rows = false;
};

class StepLayoutTest : public ::testing::Test {
 protected:
  StepLayoutTest() {
    info.n_vocab = 50;
    layout.reserve(
        {.max_tokens = 20, .max_score_rows = 8, .max_sequences = 3, .max_sequence_length = 10});
  }
  std::string failure(const Pack& pack, ErrorCode code) {
    return test::message_of([&] { layout.build(pack.batch(), info); }, code);
  }

  ModelInfo info;
  StepLayout layout;
};

TEST_F(StepLayoutTest, WithoutShiftEveryPositionScoresItself) {
  Pack pack({3, 4});
  pack.score = {0, 2, 3, 6};
  layout.build(pack.batch(), info);
  EXPECT_THAT(layout.scored_rows(), ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(layout.scored_positions(), ElementsAre(100, 102, 200, 203));
}

TEST_F(StepLayoutTest, ShiftTakesTheRowBeforeInsideTheSameSequence) {
  info.shift_logits = true;
  Pack pack({3, 4});
  pack.score = {0, 1, 2, 3, 4, 6};
  layout.build(pack.batch(), info);
  // The first position of each sequence is scored by its own row, never by a neighbour's.
  EXPECT_THAT(layout.scored_rows(), ElementsAre(0, 0, 1, 3, 3, 5));
  EXPECT_THAT(layout.scored_positions(), ElementsAre(100, 100, 101, 200, 200, 202));
}

TEST_F(StepLayoutTest, RawRowsAreNotShifted) {
  info.shift_logits = true;
  Pack pack({3});
  pack.score = {0, 2};
  pack.raw_rows = true;
  layout.build(pack.batch(), info);
  EXPECT_THAT(layout.scored_rows(), ElementsAre(0, 2));
}

TEST_F(StepLayoutTest, ScoredSpansFollowTheOrderOfScoreAndAllowDuplicates) {
  Pack pack({3, 4});
  pack.score = {4, 4, 1};
  layout.build(pack.batch(), info);
  ASSERT_EQ(layout.n_spans(), 2U);
  const auto first = layout.scored_spans()[0];
  EXPECT_EQ(first.q_begin, 0U);
  EXPECT_EQ(first.q_count, 2U);
  EXPECT_EQ(first.kv_begin, 3U);
  EXPECT_EQ(first.kv_count, 4U);
  const auto second = layout.scored_spans()[1];
  EXPECT_EQ(second.q_begin, 2U);
  EXPECT_EQ(second.q_count, 1U);
  EXPECT_EQ(second.kv_begin, 0U);
  EXPECT_EQ(second.kv_count, 3U);
}

TEST_F(StepLayoutTest, BothSpanListsHaveOneLength) {
  Pack pack({3, 4});
  pack.score = {0, 3, 1, 4};  // four runs over two sequences
  layout.build(pack.batch(), info);
  EXPECT_EQ(layout.all_spans().size(), 4U);
  EXPECT_EQ(layout.scored_spans().size(), 4U);
  EXPECT_EQ(layout.all_spans()[3].q_count, 0U);

  pack.score = {5};  // one run over two sequences
  layout.build(pack.batch(), info);
  EXPECT_EQ(layout.n_spans(), 2U);
  EXPECT_EQ(layout.scored_spans()[1].q_count, 0U);
}

TEST_F(StepLayoutTest, RefusesReservedMaskKindsByName) {
  Pack pack({3});
  pack.sequences[0].mask = MaskKind::block_causal;
  EXPECT_THAT(failure(pack, ErrorCode::unsupported), HasSubstr("block_causal"));
}

TEST_F(StepLayoutTest, RefusesCacheUse) {
  Pack pack({3});
  pack.sequences[0].cache = {.handle = 7, .read = true, .write = false};
  EXPECT_THAT(failure(pack, ErrorCode::unsupported), HasSubstr("cache use (handle 7, read)"));
}

TEST_F(StepLayoutTest, RefusesTokensOutsideTheVocabularyNamingBoth) {
  Pack pack({3});
  pack.ids[1] = 50;
  EXPECT_THAT(failure(pack, ErrorCode::bad_usage), HasSubstr("token id 50"));
  EXPECT_THAT(failure(pack, ErrorCode::bad_usage), HasSubstr("0 to 49"));
  pack.ids[1] = -1;
  EXPECT_THAT(failure(pack, ErrorCode::bad_usage), HasSubstr("token id -1"));
}

TEST_F(StepLayoutTest, RefusesBatchesBeyondTheReservedLimits) {
  EXPECT_THAT(failure(Pack({10, 10, 1}), ErrorCode::internal),
              HasSubstr("21 tokens, reserve() was called for 20"));
  EXPECT_THAT(failure(Pack({1, 1, 1, 1}), ErrorCode::internal), HasSubstr("4 sequences"));
  EXPECT_THAT(failure(Pack({11}), ErrorCode::internal), HasSubstr("11 tokens in one sequence"));
  Pack pack({3});
  pack.score.assign(9, 0);
  EXPECT_THAT(failure(pack, ErrorCode::internal), HasSubstr("9 score rows"));
}

TEST_F(StepLayoutTest, RefusesSequencesThatDoNotTileThePack) {
  Pack gap({3, 4});
  gap.sequences[1].begin = 4;
  EXPECT_THAT(failure(gap, ErrorCode::internal), HasSubstr("sequence 1"));
  Pack empty({3, 4});
  empty.sequences[0].length = 0;
  EXPECT_THAT(failure(empty, ErrorCode::internal), HasSubstr("non-empty"));
  Pack short_pack({3, 4});
  short_pack.sequences.pop_back();
  EXPECT_THAT(failure(short_pack, ErrorCode::internal), HasSubstr("7 tokens"));
  Pack score({3});
  score.score = {3};
  EXPECT_THAT(failure(score, ErrorCode::internal), HasSubstr("token 3 of 3"));
  Pack positions({3});
  positions.positions.pop_back();
  EXPECT_THAT(failure(positions, ErrorCode::internal), HasSubstr("2 positions"));
}

}  // namespace
}  // namespace dllm::model_common

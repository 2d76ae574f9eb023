// The notes of sums that wait for their reader, without a device: what is added when, and what is
// left to the reader.
#include "waiting_sums.hpp"

#include <gtest/gtest.h>

#include <array>

namespace dllm::test {
namespace {

using cuda::Rows;
using cuda::SummedRows;
using cuda::Sums;
using cuda::WaitingSums;

class WaitingSumsOf : public testing::Test {
 protected:
  Rows rows(std::size_t i, std::uint32_t n = 8) { return {&buffers_[i], n, 4}; }
  // A product whose results are `to`, in two parts.
  SummedRows product(const Rows& to, bool adds = false) {
    Sums sums;
    sums.parts = &buffers_[0];
    sums.n = 2;
    sums.adds = adds;
    return {to, sums};
  }
  void wait_for(std::initializer_list<SummedRows> all) {
    sums_.settle_all();
    sums_.add({all.begin(), all.size()}, true);
  }
  // Buffers whose sums have been added since the last call, in order, by call.
  std::vector<std::vector<std::size_t>> added() { return std::exchange(added_, {}); }
  using Calls = std::vector<std::vector<std::size_t>>;

  std::array<float, 4> buffers_{};
  Calls added_;
  WaitingSums sums_{[this](std::span<const SummedRows> all) {
    auto& call = added_.emplace_back();
    for (const SummedRows& each : all)
      call.push_back(static_cast<std::size_t>(each.rows.values - buffers_.data()));
  }};
};

TEST_F(WaitingSumsOf, AStepAreLeftToTheReaderOfJustThoseRows) {
  sums_.begin_step();
  wait_for({product(rows(0)), product(rows(1))});
  EXPECT_EQ(sums_.take(rows(1)).n, 2U);
  EXPECT_EQ(added(), Calls{});
  EXPECT_EQ(sums_.take(rows(1)).n, 0U) << "taken twice";
  EXPECT_EQ(sums_.take(rows(2)).n, 0U) << "of rows that have none";
  sums_.end_step();
  EXPECT_EQ(added(), Calls{{0}});
}

TEST_F(WaitingSumsOf, NoStepAreAddedAtOnce) {
  wait_for({product(rows(0)), product(rows(1))});
  EXPECT_EQ(added(), (Calls{{0, 1}}));
  sums_.begin_step();
  sums_.end_step();
  wait_for({product(rows(2))});
  EXPECT_EQ(added(), Calls{{2}});
}

TEST_F(WaitingSumsOf, RowsThatAreReadOtherwiseAreAddedAtOnce) {
  sums_.begin_step();
  sums_.add(std::array{product(rows(3))}, false);
  EXPECT_EQ(added(), Calls{{3}});
}

TEST_F(WaitingSumsOf, AProductThatWasNotSplitAreNone) {
  sums_.begin_step();
  wait_for({SummedRows{rows(0), {}}});
  EXPECT_EQ(sums_.take(rows(0)).n, 0U);
  sums_.end_step();
  EXPECT_EQ(added(), Calls{});
}

TEST_F(WaitingSumsOf, OneCallAreAddedBeforeTheNextOneTakesTheirPlace) {
  sums_.begin_step();
  wait_for({product(rows(0)), product(rows(1)), product(rows(2))});
  EXPECT_EQ(sums_.take(rows(0)).n, 2U);
  wait_for({product(rows(3))});
  EXPECT_EQ(added(), (Calls{{1, 2}}));
  EXPECT_EQ(sums_.take(rows(3)).n, 2U);
}

TEST_F(WaitingSumsOf, RowsAreAddedWhereMoreOrFewerRowsAreRead) {
  sums_.begin_step();
  for (const std::uint32_t n : {7U, 9U}) {
    wait_for({product(rows(0))});
    EXPECT_EQ(sums_.take(rows(0, n)).n, 0U);
    EXPECT_EQ(added(), Calls{{0}});
  }
}

TEST_F(WaitingSumsOf, RowsThatTheyAddToAreNotTakenByWhoReplacesThem) {
  sums_.begin_step();
  wait_for({product(rows(0), true)});
  EXPECT_EQ(sums_.take_new(rows(0)).n, 0U);
  EXPECT_EQ(added(), Calls{{0}});
  wait_for({product(rows(0), false)});
  EXPECT_EQ(sums_.take_new(rows(0)).n, 2U);
}

TEST_F(WaitingSumsOf, RowsWrittenAnewAreForgottenIfAllAre) {
  sums_.begin_step();
  wait_for({product(rows(0)), product(rows(1))});
  sums_.overwritten(rows(0));
  sums_.overwritten(rows(1, 7));
  EXPECT_EQ(added(), Calls{{1}});
  sums_.end_step();
  EXPECT_EQ(added(), Calls{});
}

TEST_F(WaitingSumsOf, AStepThatFailedAreForgotten) {
  sums_.begin_step();
  wait_for({product(rows(0))});
  sums_.abandon_step();
  EXPECT_EQ(sums_.take(rows(0)).n, 0U);
  EXPECT_EQ(added(), Calls{});
  wait_for({product(rows(1))});
  EXPECT_EQ(added(), Calls{{1}}) << "no step runs";
}

}  // namespace
}  // namespace dllm::test

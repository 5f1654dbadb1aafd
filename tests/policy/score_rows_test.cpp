#include "policy/score_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "support/expect_error.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

size_t hundred_bytes(int, int) { return 100; }

void fill_with_row(const ScoredRow& row) {
  std::fill(row.scores.begin(), row.scores.end(), float(10 * row.layer + row.head_kv));
}

TEST(ScoreEachRow, FillsRowsOfTheRightLength) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {1, 3, 2, 4}});
  const Scores scores = score_each_row(synthetic.context(10, 3), hundred_bytes, fill_with_row);
  const std::vector<std::vector<float>> expected{{0}, {1, 1, 1}, {10, 10}, {11, 11, 11, 11}};
  EXPECT_EQ(scores.rows, expected);
  EXPECT_EQ(scores.scratch_peak, 300U);
}

TEST(ScoreEachRow, UsesFewerThreadsWhereMemoryIsShort) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {4}});
  PolicyContext context = synthetic.context(16, 4);
  context.scratch_bytes = 250;
  EXPECT_EQ(score_each_row(context, hundred_bytes, fill_with_row).scratch_peak, 200U);
  context.scratch_bytes = 99;
  expect_error(ErrorCode::memory, "needs 100 bytes of scratch, the limit is 99",
               [&] { score_each_row(context, hundred_bytes, fill_with_row); });
}

TEST(ScoreEachRow, ReportsRisingProgressFromTheCallingThread) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {4}});
  PolicyContext context = synthetic.context(16, 3);
  std::vector<double> shares;
  context.progress = [&, caller = std::this_thread::get_id()](double share) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    shares.push_back(share);
    return true;
  };
  score_each_row(context, hundred_bytes, fill_with_row);
  EXPECT_EQ(shares.front(), 0);
  EXPECT_EQ(shares.back(), 1);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
}

TEST(ScoreEachRow, APassTellsItsShareOfTheWhole) {
  const auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {4}});
  PolicyContext context = synthetic.context(8);
  std::vector<double> shares;
  context.progress = [&](double share) {
    shares.push_back(share);
    return share < 0.75;
  };
  score_each_row(pass_of(context, 0, 0.5), hundred_bytes, fill_with_row);
  expect_error(ErrorCode::interrupted, "stopped",
               [&] { score_each_row(pass_of(context, 0.5, 1), hundred_bytes, fill_with_row); });
  EXPECT_EQ(shares, (std::vector<double>{0, 0.25, 0.5, 0.5, 0.5, 0.75}));
}

TEST(ScoreEachRow, StopsWhereProgressSaysSo) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {4}});
  PolicyContext context = synthetic.context(16);
  int scored = 0;
  context.progress = [](double share) { return share < 0.5; };
  expect_error(ErrorCode::interrupted, "stopped", [&] {
    score_each_row(context, hundred_bytes, [&](const ScoredRow&) { ++scored; });
  });
  EXPECT_EQ(scored, 2);
}

}  // namespace

}  // namespace pith::test

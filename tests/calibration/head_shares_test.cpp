#include "calibration/head_shares.h"

#include <gtest/gtest.h>

#include "support/synthetic.h"

namespace pith::test {

namespace {

/// Two KV heads of 8 eligible entries between two protected ones, which have the highest scores.
TEST(HeadShares, CountWhatOneContestKeepsOfEachHead) {
  const auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {10}});
  PolicyContext context = synthetic.context(20);
  context.protection = {.sinks = 1, .window = 1};
  const Scores scores{
      .rows = {{99, 16, 15, 14, 13, 12, 11, 3, 2, 99}, {99, 10, 9, 8, 7, 6, 5, 4, 1, 99}},
      .notes = {},
      .scratch_peak = 0};
  const auto shares = head_shares(scores, context);
  ASSERT_EQ(shares.size(), 5U);
  // Of 16: 8, 4, 2, 1 and 0 entries.
  EXPECT_EQ(shares[0].row, (std::vector<float>{0.75F, 0.25F}));
  for (const size_t s : {1, 2, 3}) EXPECT_EQ(shares[s].row, (std::vector<float>{1, 0}));
  EXPECT_EQ(shares[4].row, (std::vector<float>{0.5F, 0.5F}));
  EXPECT_EQ(shares[4].kept, 0.025);
}

TEST(HeadShares, MeanOverTexts) {
  const std::vector<std::vector<HeadShares>> texts{{{.kept = 0.5, .row = {1, 0}}},
                                                   {{.kept = 0.5, .row = {0.5F, 0.5F}}}};
  EXPECT_EQ(mean_shares(texts)[0].row, (std::vector<float>{0.75F, 0.25F}));
}

}  // namespace

}  // namespace pith::test

#include <gtest/gtest.h>

#include <cmath>

#include "policy/policy.h"
#include "support/one_head.h"

namespace pith::test {

namespace {

void expect_scores(const Synthetic& synthetic, int64_t keep_total,
                   const std::vector<double>& expected) {
  const Scores scores = Policy::parse("compactor").score(synthetic.context(keep_total));
  ASSERT_EQ(scores.rows[0].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(double(scores.rows[0][i]), expected[i], 1e-5) << "entry " << i;
  }
}

/// Every query of the prompt pays 1/8, 2/8, 4/8, 1/8, the ones before an entry too; values are of
/// length 4, 0, 2, 4. Four queries pay 1/2, 1, 2, 1/2 in all: times the values 2, 0, 4, 2, and over
/// three neighbours 2/3, 2, 2, 2. Less their mean 5/3 these are -1, 1/3, 1/3, 1/3, of deviation
/// 2/3.
Synthetic eighths() { return one_head({1, 2, 4, 1}, {4, 0, 2, -4}); }

TEST(Compactor, AttentionWithinAStretchCountsAloneWhereAllIsKept) {
  expect_scores(eighths(), 4, {-1.5, 0.5, 0.5, 0.5});
}

// Keys are 0, 1, 2, 0 times log 2; less their mean -3, 1, 5, -3 quarters of it. In one dimension
// leverage is the square over a constant, which the standard scores lose: 9, 1, 25, 9 less their
// mean 11 are -2, -10, 14, -2, of variance 304 / 3. Three quarters of the entries go.
TEST(Compactor, LeverageCountsAsMuchAsIsEvicted) {
  const double deviation = std::sqrt(304.0 / 3);
  expect_scores(eighths(), 1,
                {-1.5 - 0.75 * 2 / deviation, 0.5 - 0.75 * 10 / deviation,
                 0.5 + 0.75 * 14 / deviation, 0.5 - 0.75 * 2 / deviation});
}

// Positions 0 and 1 attend to each other: 2/4 and 6/4; position 256 begins the next stretch and
// attends to itself: 1. Over three neighbours 2/3, 1, 5/6.
TEST(Compactor, StretchesOf256PositionsDoNotAttendToEachOther) {
  Synthetic synthetic = one_head({1, 3, 5}, {1, 1, 1});
  synthetic.cache.rows[0].positions = synthetic.prompt.positions = {0, 1, 256};
  synthetic.cache.seen = 257;
  expect_scores(synthetic, 3, {-1, 1, 0});
}

TEST(Compactor, TellsTheProgressOfBothPasses) {
  const Synthetic synthetic = eighths();
  PolicyContext context = synthetic.context(2);
  std::vector<double> shares;
  context.progress = [&](double share) {
    shares.push_back(share);
    return true;
  };
  Policy::parse("compactor").score(context);
  EXPECT_EQ(shares, (std::vector<double>{0, 0.5, 0.5, 0.5, 1, 1}));
}

}  // namespace

}  // namespace pith::test

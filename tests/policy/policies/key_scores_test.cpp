#include <gtest/gtest.h>

#include <cmath>

#include "policy/policy.h"
#include "support/one_head.h"

namespace pith::test {

namespace {

Synthetic with_keys(const std::vector<float>& keys) {
  const size_t n = keys.size() / 2;
  Synthetic out = one_head(std::vector<float>(n, 1.0F), std::vector<float>(n, 1.0F));
  out.cache.rows[0].keys = keys;
  return out;
}

std::vector<float> scores(const std::string& spec, const Synthetic& synthetic) {
  PolicyContext context = synthetic.context(int64_t(synthetic.cache.rows[0].positions.size()));
  context.protection = {.sinks = 1, .window = 1};
  return Policy::parse(spec).score(context).rows[0];
}

TEST(Knorm, ScoresAreNegativeNorms) {
  EXPECT_EQ(scores("knorm", with_keys({3, 4, 0, 1, 5, -12})), (std::vector<float>{-5, -1, -13}));
}

// Directions (1, 0), (1, 0), (0, 1): their mean points to (2, 1) / sqrt 5, whatever the lengths.
TEST(KeyDiff, ScoresAreNegativeCosinesToTheMeanDirection) {
  const auto row = scores("keydiff", with_keys({2, 0, 7, 0, 0, 0.5F}));
  EXPECT_NEAR(row[0], -2 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(row[1], -2 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(row[2], -1 / std::sqrt(5.0), 1e-6);
}

// After the sink come blocks {1, 2} and {3, 4} of lag 2. Channels of the second range over [0, 1];
// the first's entries (0, 3) and (1, 1) spread by 3/sqrt 2 and 0. The second block, having none to
// compare with, ranks first. Values are all equal.
TEST(LagKv, RanksByTheSpreadInTheRangeOfTheNextBlock) {
  const auto row = scores("lagkv(lag=2)", with_keys({9, 9, 0, 3, 1, 1, 0, 0, 1, 1, 5, 5}));
  EXPECT_EQ(row, (std::vector<float>{1, 0.5F, 0, 1, 1, 1}));
}

TEST(LagKv, ATextOfLessThanTwoBlocksRanksByPosition) {
  EXPECT_EQ(scores("lagkv", with_keys({3, 4, 0, 1, 5, -12})), (std::vector<float>{1, 1, 1}));
}

// Less their mean the keys are (-1, 0), (1, 0) and 0, 0: X^T X = diag(2, 0), leverages 1/2.01,
// 1/2.01, 0.
TEST(Leverage, IsHighWhereOtherKeysDoNotReach) {
  const auto row = scores("leverage", with_keys({1, 5, 3, 5, 2, 5}));
  const double high = 1 / 2.01, mean = 2 * high / 3;
  const double deviation = std::sqrt((2 * (high - mean) * (high - mean) + mean * mean) / 2);
  EXPECT_NEAR(row[0], (high - mean) / deviation, 1e-5);
  EXPECT_NEAR(row[1], (high - mean) / deviation, 1e-5);
  EXPECT_NEAR(row[2], -mean / deviation, 1e-5);
}

// A quarter turn a position: before the rotation all keys are (1, 0), so that none stands out.
TEST(Leverage, TakesKeysBeforeTheirRotation) {
  Synthetic synthetic = with_keys({1, 0, 0, 1, -1, 0});
  synthetic.weights.turn.frequency = {std::acos(0.0F)};
  for (const float score : scores("leverage", synthetic)) EXPECT_NEAR(score, 0, 1e-3);
}

}  // namespace

}  // namespace pith::test

#include "eval/rank_correlation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pith {
namespace {

using Values = std::vector<double>;

TEST(RankCorrelation, EqualValuesShareTheAverageOfTheirRanks) {
  EXPECT_EQ(average_ranks(Values{30, 10, 20, 10, 30, 30}), (Values{5, 1.5, 3, 1.5, 5, 5}));
  EXPECT_TRUE(average_ranks(Values{}).empty());
}

TEST(RankCorrelation, OfAnOrderAndItsReverse) {
  EXPECT_DOUBLE_EQ(spearman(Values{1, 5, 2, 9}, Values{0.1, 100, 0.2, 101}), 1);
  EXPECT_DOUBLE_EQ(spearman(Values{1, 2, 3}, Values{3, 2, 1}), -1);
}

/// Ranks (1, 2.5, 2.5, 4) and (2, 1, 4, 3): deviations (-1.5, 0, 0, 1.5) and (-.5, -1.5, 1.5, .5),
/// products 1.5, squares 4.5 and 5.
TEST(RankCorrelation, WithTies) {
  EXPECT_NEAR(spearman(Values{1, 2, 2, 3}, Values{7, 5, 9, 8}), 1.5 / std::sqrt(4.5 * 5), 1e-15);
}

TEST(RankCorrelation, OfAConstantIsZero) {
  EXPECT_EQ(spearman(Values{2, 2, 2}, Values{1, 2, 3}), 0);
  EXPECT_EQ(spearman(Values{1}, Values{1}), 0);
}

TEST(PercentileBins, AreOfEqualSizeUpToOneInTheOrderOfTheKey) {
  const Values key{5, 1, 4, 2, 3}, value{50, 10, 40, 20, 30};
  EXPECT_EQ(percentile_bins(key, value, 2), (Values{15, 40}));
  EXPECT_EQ(percentile_bins(key, value, 5), (Values{10, 20, 30, 40, 50}));
}

TEST(PercentileBins, EqualKeysStayInTheirOrder) {
  EXPECT_EQ(percentile_bins(Values{1, 1, 0, 1}, Values{1, 2, 3, 4}, 2), (Values{2, 3}));
}

}  // namespace
}  // namespace pith

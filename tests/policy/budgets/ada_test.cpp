#include <gtest/gtest.h>

#include <numeric>

#include "policy/budgets/budgets.h"
#include "policy/budgets/contest.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

/// Two layers of two KV heads, five entries each of which the first and the last are protected.
std::vector<int> quotas(const std::string& floor, int64_t keep_total) {
  const auto synthetic = make_synthetic({.shape = small_shape(2), .lengths = {12}});
  PolicyContext context = synthetic.context(keep_total);
  context.protection = {.sinks = 1, .window = 1};
  Scores scores;
  for (const float best : {4.0F, 1.0F, 3.0F, 2.0F}) {
    scores.rows.emplace_back(12, best);
  }
  KnobValues knobs;
  knobs.set("floor", floor);
  return ada_row().make(knobs)->quotas(scores, context);
}

TEST(AdaRule, HeadsOfALayerCompeteForItsEqualShare) {
  EXPECT_EQ(quotas("0", 24), (std::vector<int>{10, 2, 10, 2}));
  EXPECT_EQ(quotas("0", 32), (std::vector<int>{12, 4, 12, 4}));
}

TEST(AdaRule, EveryHeadKeepsTheFloorOfItsShare) {
  EXPECT_EQ(quotas("0.5", 24), (std::vector<int>{9, 3, 9, 3}));
  EXPECT_EQ(quotas("1", 24), (std::vector<int>{6, 6, 6, 6}));
}

TEST(AdaRule, LayersGetEqualSharesToOneEntry) {
  EXPECT_EQ(quotas("0", 25), (std::vector<int>{11, 2, 10, 2}));
}

TEST(PyramidRule, FallsAlongALineToOneOverBeta) {
  const auto synthetic = make_synthetic({.shape = small_shape(3, 1), .lengths = {102}});
  PolicyContext context = synthetic.context(66);
  context.protection = {.sinks = 1, .window = 1};
  KnobValues knobs;
  knobs.set("beta", "20");
  // 20 entries a layer beside the protected two: 39, 20 and 1.
  EXPECT_EQ(pyramid_row().make(knobs)->quotas({}, context), (std::vector<int>{41, 22, 3}));
  knobs.set("beta", "1");
  EXPECT_EQ(pyramid_row().make(knobs)->quotas({}, context), (std::vector<int>{22, 22, 22}));
}

TEST(ProportionalQuotas, SharesByWeightWithinLimits) {
  const std::vector<double> weights{1, 2, 3};
  const std::vector<int> none(3, 0), ten(3, 10);
  EXPECT_EQ(proportional_quotas(weights, none, ten, 12), (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(proportional_quotas(weights, none, std::vector<int>{10, 10, 4}, 13),
            (std::vector<int>{3, 6, 4}));
  EXPECT_EQ(proportional_quotas(weights, std::vector<int>{5, 0, 0}, ten, 15),
            (std::vector<int>{5, 4, 6}));
}

TEST(ProportionalQuotas, TotalsAreExactEvenWithoutWeights) {
  const std::vector<int> none(4, 0), most{3, 0, 9, 5};
  for (int total = 0; total <= 17; ++total) {
    for (const std::vector<double>& weights :
         {std::vector<double>{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 5, 0, 1e-9}}) {
      const auto quotas = proportional_quotas(weights, none, most, total);
      EXPECT_EQ(std::accumulate(quotas.begin(), quotas.end(), 0), total);
      for (size_t r = 0; r < 4; ++r) EXPECT_LE(quotas[r], most[r]);
    }
  }
}

}  // namespace

}  // namespace pith::test

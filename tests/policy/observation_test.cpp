#include <gtest/gtest.h>

#include "pith/policy.hpp"

namespace pith::test {

namespace {

/// Three positions, two layers of two numbers a position, three of state and one logit.
Observation three_positions() {
  return {.positions = {5, 6, 9},
          .query = {{1, 2, 3, 4, 5, 6}, {10, 20, 30, 40, 50, 60}},
          .residual = {1, 1, 1, 2, 2, 2, 3, 3, 3},
          .logits = {7, 8, 9}};
}

TEST(Observation, TailKeepsTheLastPositions) {
  const Observation tail = three_positions().tail(2);
  EXPECT_EQ(tail.positions, (std::vector<int32_t>{6, 9}));
  EXPECT_EQ(tail.query, (std::vector<std::vector<float>>{{3, 4, 5, 6}, {30, 40, 50, 60}}));
  EXPECT_EQ(tail.residual, (std::vector<float>{2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(tail.logits, (std::vector<float>{8, 9}));
}

TEST(Observation, TailOfMoreThanThereIsIsAll) {
  EXPECT_EQ(three_positions().tail(4).positions, three_positions().positions);
  EXPECT_EQ(three_positions().tail(3).query, three_positions().query);
}

TEST(Observation, TailOfNoneIsEmpty) {
  EXPECT_TRUE(three_positions().tail(0).positions.empty());
  EXPECT_TRUE(three_positions().tail(-1).logits.empty());
  EXPECT_TRUE(Observation{}.tail(3).positions.empty());
}

TEST(Plan, TotalCountsAllRows) {
  EXPECT_EQ(Plan{}.total(), 0);
  Plan plan;
  plan.rows = {{.keep = {0, 3}, .log_weight = {}}, {.keep = {1}, .log_weight = {}}};
  EXPECT_EQ(plan.total(), 3);
}

}  // namespace

}  // namespace pith::test

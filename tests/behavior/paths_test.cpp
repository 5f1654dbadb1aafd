#include "behavior/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace pith::behavior {
namespace {

using Order = std::vector<Step<float>>;

Order order_of(const std::vector<float>& rises, const std::vector<int>& halvings = {}) {
  Order order;
  for (size_t i = 0; i < rises.size(); ++i) {
    order.push_back({{0, int(i)}, rises[i], halvings.empty() ? 0 : halvings[i]});
  }
  return order;
}

TEST(PathScores, AreTheRunningMaximumMadeStrict) {
  const std::vector<Order> orders{order_of({1, 3, 2, -1, 4})};
  const auto scores = path_scores(orders);
  EXPECT_EQ(scores[0][0], 1);
  EXPECT_EQ(scores[0][1], 3);
  EXPECT_EQ(scores[0][2], std::nextafter(3.0F, 4.0F));
  EXPECT_GT(scores[0][3], scores[0][2]);
  EXPECT_NEAR(scores[0][3], 3, 1e-6);
  EXPECT_EQ(scores[0][4], 4);
}

TEST(PathScores, OneThresholdCutsEveryOrderAtAPrefix) {
  const std::vector<Order> orders{order_of({1, 5, 2, 6}), order_of({0, 0, 0, 3, 9})};
  const auto scores = path_scores(orders);
  for (const auto& row : scores)
    EXPECT_TRUE(std::is_sorted(row.begin(), row.end(), std::less_equal<>()));
  EXPECT_LT(scores[1][3], scores[0][1]);
  EXPECT_LT(scores[0][3], scores[1][4]);
}

TEST(PathScores, StepsOfAHalvedEpsComeAfterAllOthers) {
  const std::vector<Order> orders{order_of({1, 0.5F, 0.25F}, {0, 1, 2}),
                                  order_of({2, 8, 0.75F}, {0, 0, 1})};
  const auto scores = path_scores(orders);
  EXPECT_GT(scores[0][1], scores[1][1]);
  EXPECT_LT(scores[0][1], scores[1][2]);
  EXPECT_LT(scores[1][2], scores[0][2]);
  EXPECT_TRUE(std::isfinite(scores[0][2]));
}

TEST(PathScores, WhatCanNeverGoIsLastAndFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Order> orders{order_of({1, infinity, infinity}, {0, 11, 11}), order_of({7})};
  const auto scores = path_scores(orders);
  EXPECT_GT(scores[0][1], 7);
  EXPECT_GT(scores[0][2], scores[0][1]);
  EXPECT_TRUE(std::isfinite(scores[0][2]));
}

}  // namespace
}  // namespace pith::behavior

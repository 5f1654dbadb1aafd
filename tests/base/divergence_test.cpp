#include "base/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace pith {
namespace {

double kl(const std::vector<float>& p, const std::vector<float>& q) {
  return kl_divergence(p, log_sum_exp(p), q, log_sum_exp(q));
}

TEST(Divergence, OfTwoTokensByHand) {
  const auto ln = [](double x) { return float(std::log(x)); };
  EXPECT_NEAR(kl({ln(3), ln(1)}, {ln(1), ln(1)}), 0.75 * std::log(1.5) + 0.25 * std::log(0.5),
              1e-7);
}

TEST(Divergence, DoesNotDependOnAShiftAndSurvivesLargeLogits) {
  EXPECT_NEAR(kl({6e4F, 6e4F - 1}, {-6e4F, -6e4F}), kl({1, 0}, {0, 0}), 1e-7);
  EXPECT_EQ(kl({5, 1, -3}, {5, 1, -3}), 0);
  EXPECT_EQ(kl({0, -std::numeric_limits<float>::infinity()}, {0, 0}), std::log(2.0));
}

}  // namespace
}  // namespace pith

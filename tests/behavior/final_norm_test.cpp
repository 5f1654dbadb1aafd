#include "behavior/final_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pith::behavior {
namespace {

constexpr double kEps = 1e-5;
const std::vector<double> kState{0.7, -1.2, 0.1, 2.3, -0.4};
const std::vector<double> kGain{1.1, 0.8, -0.5, 1.4, 0.9};
const std::vector<double> kShift{0.3, 0.2, -0.7, 0.5, 1.0};

std::vector<double> rms_norm(const std::vector<double>& x) {
  double mean = 0;
  for (const double v : x) mean += v * v / double(x.size());
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(kGain[i] * x[i] / std::sqrt(mean + kEps));
  return y;
}

TEST(NormJacobian, PushIsTheCentralDifference) {
  std::vector<double> pushed(kState.size());
  NormJacobian<double>(kState, kGain, kEps).push(kShift, pushed);
  constexpr double kStep = 1e-6;
  std::vector<double> above = kState, below = kState;
  for (size_t i = 0; i < kState.size(); ++i) {
    above[i] += kStep * kShift[i];
    below[i] -= kStep * kShift[i];
  }
  const auto high = rms_norm(above), low = rms_norm(below);
  for (size_t i = 0; i < kState.size(); ++i) {
    EXPECT_NEAR(pushed[i], (high[i] - low[i]) / (2 * kStep), 1e-9);
  }
}

TEST(NormJacobian, PullBackIsTheTransposeOfPush) {
  const NormJacobian<double> norm(kState, kGain, kEps);
  const std::vector<double> form{0.4, -0.1, 0.9, 0.2, -1.3};
  std::vector<double> pulled = form, pushed(kState.size());
  norm.pull_back(pulled);
  norm.push(kShift, pushed);
  double before = 0, after = 0;
  for (size_t i = 0; i < form.size(); ++i) {
    before += pulled[i] * kShift[i];
    after += form[i] * pushed[i];
  }
  EXPECT_NEAR(before, after, 1e-12);
}

}  // namespace
}  // namespace pith::behavior

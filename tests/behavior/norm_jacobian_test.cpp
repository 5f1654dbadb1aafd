#include "behavior/norm_jacobian.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reference/one_layer.hpp"

namespace pith::behavior {
namespace {

constexpr double kEps = 1e-5;
const std::vector<double> kState{0.7, -1.2, 0.1, 2.3, -0.4};
const std::vector<double> kGain{1.1, 0.8, -0.5, 1.4, 0.9};
const std::vector<double> kShift{0.3, 0.2, -0.7, 0.5, 1.0};

class NormJacobianTest : public testing::TestWithParam<NormKind> {
 protected:
  std::vector<double> normed(const std::vector<double>& x) const {
    return reference::normed({GetParam(), kGain, kEps}, x);
  }
  const NormJacobian<double> norm_{GetParam(), kState, kGain, kEps};
};

TEST_P(NormJacobianTest, PushIsTheCentralDifference) {
  std::vector<double> pushed(kState.size());
  norm_.push(kShift, pushed);
  constexpr double kStep = 1e-6;
  std::vector<double> above = kState, below = kState;
  for (size_t i = 0; i < kState.size(); ++i) {
    above[i] += kStep * kShift[i];
    below[i] -= kStep * kShift[i];
  }
  const auto high = normed(above), low = normed(below);
  for (size_t i = 0; i < kState.size(); ++i) {
    EXPECT_NEAR(pushed[i], (high[i] - low[i]) / (2 * kStep), 1e-9);
  }
}

TEST_P(NormJacobianTest, PullBackIsTheTransposeOfPush) {
  const std::vector<double> form{0.4, -0.1, 0.9, 0.2, -1.3};
  std::vector<double> pulled = form, pushed(kState.size());
  norm_.pull_back(pulled);
  norm_.push(kShift, pushed);
  double before = 0, after = 0;
  for (size_t i = 0; i < form.size(); ++i) {
    before += pulled[i] * kShift[i];
    after += form[i] * pushed[i];
  }
  EXPECT_NEAR(before, after, 1e-12);
}

std::string kind_name(const testing::TestParamInfo<NormKind>& tested) {
  if (tested.param == NormKind::none) return "none";
  return tested.param == NormKind::rms ? "rms" : "layer";
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormJacobianTest,
                         testing::Values(NormKind::none, NormKind::rms, NormKind::layer),
                         kind_name);

}  // namespace
}  // namespace pith::behavior

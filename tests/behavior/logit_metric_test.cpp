#include "behavior/logit_metric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/behavior_fixture.h"

namespace pith::behavior {
namespace {

using Doubles = std::vector<double>;

TEST(TopTokens, AreTheFixtures) {
  const test::BehaviorFixture fixture;
  const auto expected = fixture.json()["top"].get<std::vector<std::vector<int32_t>>>();
  EXPECT_EQ(fixture.top(), expected);
}

TEST(TopTokens, TiesGoToTheLowerToken) {
  const std::vector<float> logits{1, 3, 2, 3, 2};
  EXPECT_EQ(top_tokens<float>(logits, 3), (std::vector<int32_t>{1, 3, 2}));
  EXPECT_EQ(top_tokens<float>(logits, 9).size(), 5U);
}

TEST(Probabilities, AreRenormalisedOverTheTokens) {
  const std::vector<float> logits{0, 6e4F, 6e4F + 8, 5};
  const std::vector<int32_t> tokens{2, 1};
  const Doubles p = probabilities<float>(logits, tokens);
  EXPECT_NEAR(p[0], 1 / (1 + std::exp(-8)), 1e-12);
  EXPECT_NEAR(p[0] + p[1], 1, 1e-15);
}

/// KL between softmax(z) and softmax(z + dz) over the whole vocabulary, from its definition.
double full_kl(const Doubles& z, const Doubles& dz) {
  double sum_p = 0, sum_q = 0;
  for (size_t j = 0; j < z.size(); ++j) {
    sum_p += std::exp(z[j]);
    sum_q += std::exp(z[j] + dz[j]);
  }
  double kl = 0;
  for (size_t j = 0; j < z.size(); ++j) {
    kl += std::exp(z[j]) / sum_p * (std::log(sum_q / sum_p) - dz[j]);
  }
  return kl;
}

TEST(LogitSlope, IsTheDerivativeOfTheCappedAndScaledProduct) {
  constexpr double kStep = 1e-6, kProduct = 1.3, kScale = 0.5, kCap = 2;
  const auto capped = [](double product) { return kCap * std::tanh(kScale * product / kCap); };
  EXPECT_NEAR(logit_slope(capped(kProduct), kScale, kCap),
              (capped(kProduct + kStep) - capped(kProduct - kStep)) / (2 * kStep), 1e-9);
  EXPECT_EQ(logit_slope(6e4, kScale, 0), kScale);
}

TEST(KlOfShift, OverTheWholeVocabularyIsTheUnrestrictedKl) {
  const Doubles z{0.3, -2, 1.5, 0.1, 4, -0.7};
  for (const double size : {0.01, 0.5, 5.0, 40.0}) {
    Doubles dz{1, -0.4, 0.2, -0.9, -0.3, 0.6};
    for (double& v : dz) v *= size;
    const auto tokens = top_tokens<double>(z, int(z.size()));
    Doubles shift;
    for (const int32_t token : tokens) shift.push_back(dz[size_t(token)]);
    const double expected = full_kl(z, dz);
    EXPECT_NEAR(kl_of_shift(probabilities<double>(z, tokens), shift), expected,
                1e-10 * (1 + expected));
  }
}

TEST(KlOfShift, KeepsItsPrecisionForTinyShifts) {
  const Doubles p{0.5, 0.5}, shift{1e-9, -1e-9};
  EXPECT_NEAR(kl_of_shift(p, shift), 5e-19, 1e-24);
}

TEST(KlOfShift, IgnoresWhatMovesAllLogitsAlike) {
  const Doubles p{0.2, 0.5, 0.3}, shift{1.3, 1.3, 1.3};
  EXPECT_NEAR(kl_of_shift(p, shift), 0, 1e-15);
}

TEST(KlOfShift, SurvivesHugeShifts) {
  const Doubles p{0.25, 0.75}, shift{6e4, -6e4};
  EXPECT_NEAR(kl_of_shift(p, shift), 6e4 + std::log(0.25) + 0.5 * 6e4, 1e-6);
}

}  // namespace
}  // namespace pith::behavior

#include "eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace pith {
namespace {

/// Probabilities by the plain definition; fine for small logits.
std::vector<double> softmax(const std::vector<float>& logits) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x));
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(double(x)) / sum);
  return p;
}

std::vector<float> random_logits(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(count);
  for (float& x : logits) x = normal(random);
  return logits;
}

TEST(CompareLogits, AgreesWithTheDefinition) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    const auto full = random_logits(random, 50), compressed = random_logits(random, 50);
    const auto p = softmax(full), q = softmax(compressed);
    double kl = 0;
    for (size_t v = 0; v < p.size(); ++v) kl += p[v] * std::log(p[v] / q[v]);
    const PredictionChange change = compare_logits(full, compressed, 13);
    EXPECT_NEAR(change.kl, kl, 1e-12);
    EXPECT_NEAR(*change.dnll, std::log(p[13]) - std::log(q[13]), 1e-12);
    EXPECT_NEAR(*change.dp, q[13] - p[13], 1e-15);
  }
}

TEST(CompareLogits, HandCase) {
  // P = (1/2, 1/2), Q = (1/4, 3/4): KL = 1/2 ln 2 + 1/2 ln (2/3).
  const std::vector<float> full{0, 0}, compressed{0, std::log(3.0F)};
  const PredictionChange change = compare_logits(full, compressed, 0);
  EXPECT_NEAR(change.kl, 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3), 1e-7);
  EXPECT_FALSE(change.same_top);  // the tie of P goes to token 0
  EXPECT_NEAR(*change.dnll, std::log(2.0), 1e-7);
  EXPECT_NEAR(*change.dp, -0.25, 1e-7);
}

TEST(CompareLogits, EqualRowsDifferByExactlyNothing) {
  std::mt19937 random(3);
  const auto logits = random_logits(random, 100);
  const PredictionChange change = compare_logits(logits, logits, std::nullopt);
  EXPECT_EQ(change.kl, 0);
  EXPECT_TRUE(change.same_top);
  EXPECT_FALSE(change.dnll.has_value());
  EXPECT_FALSE(change.dp.has_value());
}

TEST(CompareLogits, SurvivesLargeLogits) {
  const std::vector<float> full{6e4F, -6e4F, 0}, compressed{6e4F, 0, -6e4F};
  EXPECT_NEAR(compare_logits(full, compressed, 0).kl, 0, 1e-12);
  const std::vector<float> other{-6e4F, 6e4F, 0};
  EXPECT_NEAR(compare_logits(full, other, 0).kl, 12e4, 1e-6);
}

TEST(CompareLogits, TokensWithoutProbabilityCountNothing) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<float> full{0, kNever, 0}, compressed{0, kNever, 0};
  EXPECT_EQ(compare_logits(full, compressed, 0).kl, 0);
}

TEST(Summaries, HandCases) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(mean(values), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(standard_error(values), std::sqrt(5.0 / 3 / 4));
  EXPECT_EQ(standard_error(std::vector<double>{5}), 0);
  EXPECT_TRUE(std::isnan(mean({})));
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(PairedRatio, ConstantRatioHasNoSpread) {
  const std::vector<double> below{1, 2, 3, 4}, above{0.5, 1, 1.5, 2};
  const Ratio ratio = paired_ratio(above, below);
  EXPECT_DOUBLE_EQ(ratio.value, 0.5);
  EXPECT_DOUBLE_EQ(ratio.lo, 0.5);
  EXPECT_DOUBLE_EQ(ratio.hi, 0.5);
}

TEST(PairedRatio, OneRowHasNoInterval) {
  const Ratio ratio = paired_ratio(std::vector<double>{1}, std::vector<double>{4});
  EXPECT_DOUBLE_EQ(ratio.value, 0.25);
  EXPECT_TRUE(std::isnan(ratio.lo));
  EXPECT_TRUE(std::isnan(ratio.hi));
}

TEST(PairedRatio, IntervalHoldsTheTrueRatioOfNoisyRows) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  std::vector<double> numerator, denominator;
  for (int i = 0; i < 60; ++i) {
    denominator.push_back(noise(random));
    numerator.push_back(0.7 * denominator.back() * noise(random));
  }
  const Ratio ratio = paired_ratio(numerator, denominator);
  EXPECT_LT(ratio.lo, 0.7);
  EXPECT_GT(ratio.hi, 0.7);
  EXPECT_LT(ratio.hi - ratio.lo, 0.1);
  EXPECT_EQ(paired_ratio(numerator, denominator).hi, ratio.hi);
}

}  // namespace
}  // namespace pith

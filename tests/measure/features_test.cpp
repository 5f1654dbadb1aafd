#include "measure/features.h"

#include <gtest/gtest.h>

#include "support/measure_fixture.h"

namespace pith::test {
namespace {

using measure::RowMatrix;

TEST(MeasureFeatures, TauIsAPartOfTheValuesSize) {
  const MeasureFixture fixture;
  EXPECT_NEAR(measure::tau_of<double>(fixture.head.values, 8, 0.3), fixture.head.tau, 1e-12);
  EXPECT_EQ(measure::tau_of<float>({}, 8, 0.3F), 0);
}

TEST(MeasureFeatures, InnerProductsAreTheGramMatrix) {
  const MeasureFixture fixture;
  const auto phi = fixture.features();
  const RowMatrix<double> gram = phi * phi.transpose();
  const std::vector<double> expected = fixture.json["gram"];
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32; ++j) {
      EXPECT_NEAR(gram(i, j), expected[size_t(32 * i + j)], 1e-7);  // rounded inputs
      EXPECT_NEAR(gram(i, j), fixture.head.gram(i, j), 1e-12);
    }
  }
}

/// A sketch's inner products average to the exact ones over seeds.
TEST(MeasureFeatures, ASketchIsUnbiased) {
  const MeasureFixture fixture;
  constexpr int kSeeds = 4000;
  std::vector<double> sum(2, 0), squares(2, 0);
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto phi = fixture.sketch(2, uint32_t(seed));
    const std::array<double, 2> found{phi.row(3).dot(phi.row(17)), phi.row(18).squaredNorm()};
    for (size_t k = 0; k < 2; ++k) {
      sum[k] += found[k];
      squares[k] += found[k] * found[k];
    }
  }
  const std::array<double, 2> exact{fixture.head.gram(3, 17), fixture.head.gram(18, 18)};
  for (size_t k = 0; k < 2; ++k) {
    const double mean = sum[k] / kSeeds;
    const double error = std::sqrt((squares[k] / kSeeds - mean * mean) / kSeeds);
    EXPECT_LT(std::abs(mean - exact[k]), 4 * error + 1e-12);
  }
}

/// Memory that rows used before: nothing of what it held stays, also where there are fewer entries
/// and queries than it has rows and buckets.
TEST(MeasureFeatures, WhatIsFreshIsReplaced) {
  const MeasureFixture fixture;
  const auto made = [&](RowMatrix<double> out, bool fresh) {
    measure::add_features(fixture.responses(), fixture.head.tau, 1 / std::sqrt(6.0), 5, out, fresh);
    return out;
  };
  const RowMatrix<double> clean = made(RowMatrix<double>::Zero(35, 8 * 9), false);
  EXPECT_EQ(made(RowMatrix<double>::Constant(35, 8 * 9, 7), true), clean);
  EXPECT_NE(made(RowMatrix<double>::Constant(35, 8 * 9, 7), false), clean);
}

/// Queries that come in two parts, in buckets of their own, make the same Gram matrix.
TEST(MeasureFeatures, PartsOfTheQueriesAddUp) {
  const MeasureFixture fixture;
  const auto part = [&](int first, int count) {
    std::vector<double> alpha;
    for (int i = 0; i < 32; ++i) {
      for (int q = first; q < first + count; ++q) {
        alpha.push_back(fixture.head.alpha[size_t(i * 6 + q)]);
      }
    }
    measure::Responses<double> responses = fixture.responses();
    responses.queries = count;
    responses.alpha = alpha;
    RowMatrix<double> out = RowMatrix<double>::Zero(32, count * 9);
    measure::add_features(responses, fixture.head.tau, 1 / std::sqrt(6.0), 5, out);
    return out;
  };
  const auto four = part(0, 4), two = part(4, 2);
  EXPECT_NEAR(four.row(4).dot(four.row(9)) + two.row(4).dot(two.row(9)), fixture.head.gram(4, 9),
              1e-12);
}

}  // namespace
}  // namespace pith::test

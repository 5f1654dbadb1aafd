#include "measure/risk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/eigenvalues.hpp"
#include "support/expect_error.h"
#include "support/measure_fixture.h"

namespace pith::test {
namespace {

using measure::RowMatrix;

RowMatrix<double> gram_of(const MeasureFixture& fixture) {
  RowMatrix<double> out = RowMatrix<double>::Zero(fixture.head.entries, fixture.head.entries);
  measure::add_gram(fixture.responses(), fixture.head.tau, out);
  return out;
}

std::vector<double> dense_eigenvalues(const RowMatrix<double>& gram) {
  return reference::eigenvalues({gram.data(), gram.data() + gram.size()}, int(gram.rows()));
}

TEST(MeasureGram, EqualsTheOneEntryByEntry) {
  const MeasureFixture fixture;
  const auto gram = gram_of(fixture);
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32; ++j) EXPECT_NEAR(gram(i, j), fixture.head.gram(i, j), 1e-12);
  }
}

/// Outputs that others add to move o_q; features with as many buckets as queries know it too.
TEST(MeasureGram, CountsWhatOthersGiveToTheOutputs) {
  const MeasureFixture fixture;
  std::vector<double> others(size_t(fixture.head.queries * fixture.head.head_dim), 0);
  for (size_t k = 0; k < others.size(); ++k) others[k] = std::sin(double(k));
  auto responses = fixture.responses();
  responses.others = others;
  RowMatrix<double> gram = RowMatrix<double>::Zero(32, 32), phi = RowMatrix<double>::Zero(32, 54);
  measure::add_gram(responses, fixture.head.tau, gram);
  measure::add_features<double>({&responses, 1}, fixture.head.tau, phi);
  EXPECT_LT((gram - phi * phi.transpose()).norm(), 1e-12);
  EXPECT_GT((gram - gram_of(fixture)).norm(), 1e-3);
}

TEST(MeasureRisk, ReproducesTheFixture) {
  const MeasureFixture fixture;
  const auto& expected = fixture.json["risk"];
  const auto gram = gram_of(fixture);
  const auto eigenvalues = measure::spectrum(gram);
  const double tr = gram.trace();
  EXPECT_NEAR(tr, expected["tr_sigma"].get<double>(), 1e-7);
  const std::vector<double> wanted = expected["eigenvalues"];
  ASSERT_EQ(eigenvalues.size(), wanted.size());
  for (size_t k = 0; k < wanted.size(); ++k) EXPECT_NEAR(eigenvalues[k], wanted[k], 1e-7);
  for (const int kept : {4, 8}) {
    const std::string name = std::to_string(kept);
    const RiskBounds bounds = measure::risk_bounds(eigenvalues, tr, kept, 32);
    EXPECT_NEAR(measure::tail_sum(eigenvalues, kept / 3), expected["tail_K3"][name].get<double>(),
                1e-7);
    EXPECT_NEAR(bounds.aware, expected["tail_K3_over_K"][name].get<double>(), 1e-7);
    EXPECT_NEAR(bounds.agnostic, expected["tr_over_K"][name].get<double>(), 1e-7);
    EXPECT_NEAR(bounds.streaming, std::log(2 + 32.0 / kept) / kept * tr, 1e-12);
  }
}

TEST(MeasureRisk, TheSpectrumIsThatOfTheDenseGram) {
  const MeasureFixture fixture;
  const auto gram = gram_of(fixture);
  const auto found = measure::spectrum(gram), dense = dense_eigenvalues(gram);
  for (size_t k = 0; k < dense.size(); ++k) EXPECT_NEAR(found[k], dense[k], 1e-13);
}

/// A sketch of 27 columns has 27 eigenvalues by either side, the larger one zeros beside.
TEST(MeasureRisk, BothSidesHaveTheSameSpectrum) {
  const MeasureFixture fixture;
  const auto phi = fixture.sketch(3, 7);
  const RowMatrix<double> small = phi.transpose() * phi, large = phi * phi.transpose();
  const auto found = measure::spectrum(small), dense = dense_eigenvalues(large);
  ASSERT_EQ(found.size(), 27U);
  for (size_t k = 0; k < dense.size(); ++k) {
    EXPECT_NEAR(k < found.size() ? found[k] : 0, dense[k], 1e-13);
  }
}

TEST(MeasureRisk, TailsEndInZero) {
  const std::vector<double> eigenvalues{4, 2, 1};
  EXPECT_EQ(measure::tail_sum(eigenvalues, 0), 7);
  EXPECT_EQ(measure::tail_sum(eigenvalues, 1), 3);
  EXPECT_EQ(measure::tail_sum(eigenvalues, 3), 0);
  EXPECT_EQ(measure::tail_sum(eigenvalues, 100), 0);
  EXPECT_EQ(measure::tail_sum({}, 0), 0);
}

TEST(MeasureRisk, NothingToLoseIsNoRisk) {
  const auto eigenvalues = measure::spectrum(RowMatrix<double>(RowMatrix<double>::Zero(5, 5)));
  EXPECT_EQ(eigenvalues, std::vector<double>(5, 0));
  EXPECT_EQ(measure::share_of(0, 0), 0);
  EXPECT_EQ(measure::risk_bounds(eigenvalues, 0, 1, 5).streaming, 0);
  EXPECT_TRUE(measure::spectrum(RowMatrix<double>()).empty());
}

TEST(MeasureRisk, ResponsesThatAreNotFiniteAreRefused) {
  RowMatrix<double> gram = RowMatrix<double>::Identity(3, 3);
  gram(1, 1) = std::numeric_limits<double>::quiet_NaN();
  expect_error(ErrorCode::internal, "not finite", [&] { measure::spectrum(gram); });
}

}  // namespace
}  // namespace pith::test

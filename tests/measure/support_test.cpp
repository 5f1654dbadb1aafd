#include "measure/support.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "support/measure_fixture.h"

namespace pith::test {
namespace {

using measure::FitOptions;
using measure::PursuitOptions;
using measure::RowMatrix;

std::vector<int> all_entries(int n) {
  std::vector<int> out(size_t(n), 0);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

/// The fixture's rules: one entry at a time, many sweeps, wide bounds.
FitOptions fixture_fit() {
  return {.ridge = 0.1, .sweeps = 50, .least = std::exp(-4.0), .most = std::exp(5.0)};
}

TEST(MeasureSupport, PursuitReproducesTheFixture) {
  const MeasureFixture fixture;
  const auto phi = fixture.features();
  const auto entries = all_entries(32);
  const PursuitOptions options{.fit = fixture_fit(), .most_at_once = 1, .batches = 1};
  for (const int size : {4, 8}) {
    const auto& expected = fixture.json["omp"][std::to_string(size)];
    const auto target = measure::sum_of<double>(phi, entries);
    const auto support = measure::pursue<double>(phi, target, entries, {}, size, options);
    EXPECT_EQ(support, expected["picks"].get<std::vector<int>>());
    const auto weights = measure::fit_weights<double>(phi, target, support, fixture_fit());
    std::vector<double> multipliers(32, 0);
    for (size_t s = 0; s < support.size(); ++s) {
      EXPECT_NEAR(weights[s], expected["weights"][s].get<double>(), 1e-6);
      multipliers[size_t(support[s])] = weights[s];
    }
    EXPECT_NEAR(measure::surrogate<double>(phi, target, support, weights),
                expected["surrogate"].get<double>(), 1e-8);
    EXPECT_NEAR(fixture.head.attention_error(multipliers),
                expected["true_error_weighted"].get<double>(), 1e-6);
  }
}

/// The weights' fit against coordinate descent on the dense Gram matrix.
TEST(MeasureSupport, WeightsEqualThoseOfTheDenseGram) {
  const MeasureFixture fixture;
  const auto phi = fixture.features();
  const auto entries = all_entries(32);
  const std::vector<int> support{1, 5, 9, 18, 30};
  const FitOptions options{.ridge = 0.2, .sweeps = 3};
  std::vector<double> w(5, 1);
  for (int sweep = 0; sweep < options.sweeps; ++sweep) {
    for (size_t s = 0; s < 5; ++s) {
      const int i = support[s];
      const double own = fixture.head.gram(i, i);
      double rest = 0;
      for (const int j : entries) rest += fixture.head.gram(i, j);
      for (size_t other = 0; other < 5; ++other) {
        if (other != s) rest -= fixture.head.gram(i, support[other]) * w[other];
      }
      w[s] = std::clamp((rest + options.ridge * own) / ((1 + options.ridge) * own), options.least,
                        options.most);
    }
  }
  const auto found =
      measure::fit_weights<double>(phi, measure::sum_of<double>(phi, entries), support, options);
  for (size_t s = 0; s < 5; ++s) EXPECT_NEAR(found[s], w[s], 1e-10);
}

TEST(MeasureSupport, WeightsOfAWholeCacheAreOne) {
  const MeasureFixture fixture;
  const auto phi = fixture.features();
  const auto entries = all_entries(32);
  for (const double w :
       measure::fit_weights<double>(phi, measure::sum_of<double>(phi, entries), entries, {})) {
    EXPECT_NEAR(w, 1, 1e-12);
  }
}

TEST(MeasureSupport, ForcedEntriesStayAndCount) {
  const MeasureFixture fixture;
  const auto phi = fixture.features();
  std::vector<int> competing;
  for (int i = 4; i < 28; ++i) competing.push_back(i);
  const std::vector<int> forced{20, 7};
  const auto target = measure::sum_of<double>(phi, competing);
  for (const int size : {2, 3, 10, 24}) {
    auto support = measure::pursue<double>(phi, target, competing, forced, size, {});
    ASSERT_EQ(int(support.size()), size);
    EXPECT_EQ(support[0], 20);
    EXPECT_EQ(support[1], 7);
    std::ranges::sort(support);
    EXPECT_EQ(std::ranges::adjacent_find(support), support.end());
    EXPECT_TRUE(std::ranges::includes(competing, support));
  }
}

/// Entries of very different sizes that answer a few directions, as a head's do.
RowMatrix<double> some_features(int entries, int columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto drawn = [&](int rows, int cols) {
    return RowMatrix<double>(
        RowMatrix<double>::NullaryExpr(rows, cols, [&] { return normal(random); }));
  };
  RowMatrix<double> phi = drawn(entries, 12) * drawn(12, columns) + 0.3 * drawn(entries, columns);
  for (int i = 0; i < entries; ++i) phi.row(i) *= std::exp(normal(random));
  return phi;
}

/// Of rows rounded to bytes a pursuit may choose otherwise, not worse.
TEST(MeasureSupport, APursuitOfRoundedRowsIsAsGood) {
  constexpr int kEntries = 200, kColumns = 150, kDraws = 30;
  const auto entries = all_entries(kEntries);
  for (const int size : {10, 50}) {
    double exact = 0, rounded = 0;
    for (unsigned seed = 0; seed < kDraws; ++seed) {
      const RowMatrix<double> phi = some_features(kEntries, kColumns, seed);
      const RowMatrix<float> floats = phi.cast<float>();
      const auto target = measure::sum_of<double>(phi, entries);
      const auto error_of = [&](const std::vector<int>& support) {
        const auto weights = measure::fit_weights<double>(phi, target, support, {});
        return measure::surrogate<double>(phi, target, support, weights);
      };
      exact += error_of(measure::pursue<double>(phi, target, entries, {}, size, {}));
      const measure::ByteRows bytes(floats);
      const auto sum = measure::sum_of<float>(floats, entries);
      rounded += error_of(measure::pursue(bytes, sum, entries, {}, size, {}));
    }
    EXPECT_LE(rounded, 1.05 * exact) << size;
  }
}

/// Two entries that answer alike: either serves, with the mass of both.
TEST(MeasureSupport, ARepresentativeCarriesTheMassOfItsTwin) {
  RowMatrix<double> phi = RowMatrix<double>::Zero(3, 2);
  phi.row(0) << 1, 0;
  phi.row(1) << 1, 0;
  phi.row(2) << 0, 3;
  const std::vector<int> entries{0, 1, 2};
  const auto target = measure::sum_of<double>(phi, entries);
  const auto support = measure::pursue<double>(phi, target, entries, {}, 2, {});
  EXPECT_EQ(support, (std::vector<int>{2, 0}));
  const auto weights =
      measure::fit_weights<double>(phi, target, support, {.ridge = 0, .sweeps = 1});
  EXPECT_NEAR(weights[0], 1, 1e-12);
  EXPECT_NEAR(weights[1], 2, 1e-12);
}

TEST(MeasureSupport, WeightsStayInTheirBoxAndZeroFeaturesKeepOne) {
  RowMatrix<float> phi = RowMatrix<float>::Zero(3, 1);
  phi(0, 0) = 1;
  phi(1, 0) = 1000;
  const std::vector<int> entries{0, 1, 2};
  const auto target = measure::sum_of<float>(phi, entries);
  const FitOptions options{.ridge = 0, .sweeps = 2};
  const auto high = measure::fit_weights<float>(phi, target, std::vector<int>{0, 2}, options);
  EXPECT_FLOAT_EQ(high[0], float(options.most));
  EXPECT_EQ(high[1], 1);
  const auto low = measure::fit_weights<float>(phi, -target, std::vector<int>{0}, options);
  EXPECT_FLOAT_EQ(low[0], float(options.least));
}

}  // namespace
}  // namespace pith::test

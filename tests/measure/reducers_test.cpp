#include "measure/reducers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "support/measure_fixture.h"

namespace pith::measure {
namespace {

/// The fixture's tree features: [(k - mean) / rms ; 0.5 v / rms].
RowMatrix<double> tree_points(const nlohmann::json& json) {
  const int n = json["n"], d = json["d"];
  const auto part = [&](const char* name, bool centred) {
    const std::vector<double> numbers = json[name];
    RowMatrix<double> out = Eigen::Map<const RowMatrix<double>>(numbers.data(), n, d);
    if (centred) out.rowwise() -= out.colwise().mean().eval();
    return RowMatrix<double>(out / std::sqrt(out.squaredNorm() / double(out.size())));
  };
  RowMatrix<double> points(n, 2 * d);
  points << part("K", true), 0.5 * part("V", false);
  return points;
}

TEST(Tree, IsTheFixtures) {
  const test::MeasureFixture fixture;
  const auto points = tree_points(fixture.json);
  for (const auto& [count, expected] : fixture.json["tree"].items()) {
    const std::vector<double> chances(32, expected["pi"].get<double>());
    const auto order = bisection_order(points, chances);
    EXPECT_EQ(order, expected["order"].get<std::vector<int>>()) << count;
    auto picks = expected["picks"].get<std::vector<int>>();
    std::ranges::sort(picks);
    EXPECT_EQ(systematic_sample(order, chances, expected["offset"]), picks) << count;
  }
}

TEST(InclusionChances, GoBySizeUpToOne) {
  const std::vector<double> sizes{1, 2, 3, 10, 0};
  const auto chances = inclusion_chances(sizes, 2);  // the 10 is sure, 1 is left for 1 + 2 + 3
  const std::vector<double> expected{1. / 6, 2. / 6, 3. / 6, 1, 0};
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_NEAR(chances[i], expected[i], 1e-12) << i;
  EXPECT_EQ(inclusion_chances(std::vector<double>{0, 0, 0, 0}, 3), std::vector<double>(4, 0.75));
}

TEST(Clusters, EqualMassesAndTheMiddleOfEach) {
  RowMatrix<double> points(6, 1);
  points << 0, 0.1, 0.3, 10, 10.2, 10.3;
  const Support two = cluster_support(points, std::vector<double>(6, 1), 2);
  EXPECT_EQ(two.entries, (std::vector<int>{1, 4}));  // means 0.133 and 10.167
  EXPECT_EQ(two.weights, (std::vector<double>{3, 3}));
  const Support all = cluster_support(points, std::vector<double>(6, 1), 6);
  EXPECT_EQ(all.weights, std::vector<double>(6, 1));
  // Half of the mass is the first entry's.
  const Support heavy = cluster_support(points, std::vector<double>{5, 1, 1, 1, 1, 1}, 2);
  EXPECT_EQ(heavy.entries, (std::vector<int>{0, 3}));
  EXPECT_EQ(heavy.weights, (std::vector<double>{1, 5}));
}

using Draw = std::function<Support(const RowMatrix<double>&, int, Random&)>;

struct RandomReducer {
  const char* name;
  Draw draw;
};

Support draw_tree(const RowMatrix<double>& features, int count, Random& random) {
  return tree_support(features, std::vector<double>(size_t(features.rows()), 1), count, random);
}

Support draw_rounded(const RowMatrix<double>& features, int count, Random& random) {
  return rounded_support(features, count, 4, random);
}

class RandomReducers : public testing::TestWithParam<RandomReducer> {
 protected:
  static Eigen::VectorXd weighted_sum(const RowMatrix<double>& features, const Support& support) {
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(features.cols());
    for (size_t s = 0; s < support.entries.size(); ++s) {
      sum += support.weights[s] * features.row(support.entries[s]).transpose();
    }
    return sum;
  }

  test::MeasureFixture fixture_;
  RowMatrix<double> features_ = fixture_.features();
};

TEST_P(RandomReducers, KeepAsManyAsAskedEachOnce) {
  for (const int count : {1, 2, 7, 31, 32}) {
    Random random(3);
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Support support = GetParam().draw(features_, count, random);
      ASSERT_EQ(support.entries.size(), size_t(count));
      ASSERT_EQ(support.weights.size(), size_t(count));
      EXPECT_EQ(std::ranges::adjacent_find(support.entries, std::greater_equal<>()),
                support.entries.end());
      for (const double weight : support.weights) EXPECT_GE(weight, 1 - 1e-9);
    }
  }
}

/// Of every feature column: the mean over seeds is within 4.5 standard errors of the whole sum.
TEST_P(RandomReducers, GiveTheWholeSumInExpectation) {
  constexpr int kSeeds = 4000;
  constexpr double kBound = 4.5;
  const Eigen::VectorXd whole = features_.colwise().sum();
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(whole.size()), squares = sum;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    const Eigen::VectorXd one = weighted_sum(features_, GetParam().draw(features_, 8, random));
    sum += one;
    squares += one.cwiseProduct(one);
  }
  const Eigen::VectorXd mean = sum / kSeeds;
  const Eigen::VectorXd variance = squares / kSeeds - mean.cwiseProduct(mean);
  for (Eigen::Index c = 0; c < whole.size(); ++c) {
    const double error = std::sqrt(std::max(variance[c], 0.0) / kSeeds);
    EXPECT_NEAR(mean[c], whole[c], kBound * error + 1e-9) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomReducers,
                         testing::Values(RandomReducer{"tree", draw_tree},
                                         RandomReducer{"pps", pps_support},
                                         RandomReducer{"rounded", draw_rounded}),
                         [](const auto& test) { return std::string(test.param.name); });

/// Features of rank 2 that are all kept right: nothing but the last entries' rounding errs.
TEST(Rounded, LeadingComponentsErrLessThanADrawAlone) {
  const test::MeasureFixture fixture;
  RowMatrix<double> features = fixture.features();
  const Eigen::VectorXd whole = features.colwise().sum();
  double drawn = 0, rounded = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto error = [&](const Support& support) {
      Eigen::VectorXd left = whole;
      for (size_t s = 0; s < support.entries.size(); ++s) {
        left -= support.weights[s] * features.row(support.entries[s]).transpose();
      }
      return left.squaredNorm();
    };
    Random one(seed), other(seed);
    drawn += error(pps_support(features, 16, one));
    rounded += error(rounded_support(features, 16, 5, other));
  }
  EXPECT_LT(rounded, 0.8 * drawn);
}

}  // namespace
}  // namespace pith::measure

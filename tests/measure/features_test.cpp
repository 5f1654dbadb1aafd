#include "measure/features.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

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

/// A head's queries in parts, each with its copy of their columns of the attention.
struct Parts {
  std::vector<std::vector<double>> alpha;
  std::vector<measure::Responses<double>> responses;

  /// Parts that begin at `first`, ascending from 0; of the k-th the last k * `missing` entries are
  /// not known.
  Parts(const MeasureFixture& fixture, const std::vector<int>& first, int missing = 0) {
    const auto whole = fixture.responses();
    for (size_t k = 0; k < first.size(); ++k) {
      const int end = k + 1 < first.size() ? first[k + 1] : whole.queries;
      auto part = whole;
      part.entries = whole.entries - int(k) * missing;
      part.queries = end - first[k];
      part.seed = uint32_t(k);
      std::vector<double> mine;
      for (int i = 0; i < part.entries; ++i) {
        const auto row = whole.alpha.begin() + ptrdiff_t{i} * whole.queries;
        mine.insert(mine.end(), row + first[k], row + end);
      }
      alpha.push_back(std::move(mine));
      responses.push_back(part);
    }
    for (size_t k = 0; k < first.size(); ++k) responses[k].alpha = alpha[k];
  }
};

/// What the maker is a fast form of: each query's profile, signed as its seed says, in its bucket.
RowMatrix<double> plain_features(const Parts& parts, double tau, int buckets, int rows) {
  const int d = parts.responses.front().head_dim;
  RowMatrix<double> out = RowMatrix<double>::Zero(rows, buckets * (d + 1));
  for (const auto& part : parts.responses) {
    std::mt19937 random(part.seed);
    const auto queries = size_t(part.queries), width = size_t(d);
    for (size_t q = 0; q < queries; ++q) {
      const double sign = (random() & 1U) != 0 ? part.scale : -part.scale;
      const auto paid = [&](size_t i) { return part.alpha[i * queries + q]; };
      std::vector<double> output(width, 0);
      for (size_t i = 0; i < size_t(part.entries); ++i) {
        for (size_t c = 0; c < width; ++c) output[c] += paid(i) * part.values[i * width + c];
      }
      for (size_t i = 0; i < size_t(part.entries); ++i) {
        double* to = out.row(Eigen::Index(i)).data() + q % size_t(buckets) * (width + 1);
        for (size_t c = 0; c < width; ++c) {
          to[c] += sign * paid(i) * (part.values[i * width + c] - output[c]);
        }
        to[width] += sign * paid(i) * tau;
      }
    }
  }
  return out;
}

/// Of one part and several, sketched and not, and of parts that do not know the last entries.
TEST(MeasureFeatures, EqualThePlainOnes) {
  const MeasureFixture fixture;
  const std::vector<std::vector<int>> firsts = {{0}, {0, 4}, {0, 1, 3}};
  for (const auto& first : firsts) {
    for (const int missing : {0, 3, 7}) {
      const Parts parts(fixture, first, missing);
      for (const int buckets : {1, 2, 4, 9}) {
        const auto expected = plain_features(parts, fixture.head.tau, buckets, 32);
        RowMatrix<double> found = RowMatrix<double>::Constant(32, buckets * 9, 7);
        measure::add_features<double>(parts.responses, fixture.head.tau, found);
        EXPECT_LT((found.array() - 7 - expected.array()).abs().maxCoeff(), 1e-12)
            << first.size() << " " << missing << " " << buckets;
      }
    }
  }
}

/// Whatever the rows held before, and however many are made at a time.
TEST(MeasureFeatures, AreMadeInAnySteps) {
  const MeasureFixture fixture;
  const Parts parts(fixture, {0, 2}, 5);
  const measure::FeatureMaker<double> maker(parts.responses, fixture.head.tau, 4);
  const auto expected = plain_features(parts, fixture.head.tau, 4, 32);
  for (const int step : {1, 5, 6, 8, 32}) {
    RowMatrix<double> found = RowMatrix<double>::Constant(32, maker.width() + 3, 7);
    for (int i = 0; i < 32; i += step) {
      std::vector<int> some(size_t(std::min(step, 32 - i)));
      std::iota(some.begin(), some.end(), i);
      maker.make(some, found.row(i).data(), found.cols());
    }
    EXPECT_LT((found.leftCols(maker.width()) - expected).cwiseAbs().maxCoeff(), 1e-12) << step;
    EXPECT_TRUE((found.rightCols(3).array() == 7).all());
  }
}

/// Some entries alone, near and far, known to all parts and to some.
TEST(MeasureFeatures, AreMadeOfAnyEntries) {
  const MeasureFixture fixture;
  const Parts parts(fixture, {0, 2}, 5);
  const measure::FeatureMaker<double> maker(parts.responses, fixture.head.tau, 4);
  const auto expected = plain_features(parts, fixture.head.tau, 4, 32);
  const std::vector<std::vector<int>> choices = {
      {}, {31}, {0, 26, 27}, {1, 2, 3, 5, 8, 13, 21}, {20, 21, 22, 25, 26, 28, 30, 31}};
  for (const auto& some : choices) {
    RowMatrix<double> found(Eigen::Index(some.size()), maker.width());
    maker.make(some, found.data(), found.cols());
    for (size_t k = 0; k < some.size(); ++k) {
      EXPECT_LT((found.row(Eigen::Index(k)) - expected.row(some[k])).cwiseAbs().maxCoeff(), 1e-12);
    }
  }
}

/// The sum and the sizes that need no profiles, also where tokens that are no entries answer.
TEST(MeasureFeatures, SummaryIsThatOfTheProfiles) {
  const MeasureFixture fixture;
  for (const int missing : {0, 5}) {
    Parts parts(fixture, {0, 2}, missing);
    const std::vector<double> others(size_t(parts.responses[1].queries) * 8, 0.25);
    parts.responses[1].others = others;
    const measure::FeatureMaker<double> maker(parts.responses, fixture.head.tau, 3);
    RowMatrix<double> all = RowMatrix<double>::Zero(32, maker.width());
    measure::add_features<double>(parts.responses, fixture.head.tau, all);
    const auto [total, sizes] = maker.summary();
    EXPECT_LT((total - all.colwise().sum()).cwiseAbs().maxCoeff(), 1e-12);
  }
  // Queries that all get the same answer: the sizes are exact. Here one, in a bucket of its own.
  auto one = fixture.responses();
  std::vector<double> paid;
  for (int i = 0; i < one.entries; ++i) paid.push_back(one.alpha[size_t(i) * size_t(one.queries)]);
  one.alpha = paid;
  one.queries = 1;
  const measure::FeatureMaker<double> maker({&one, 1}, fixture.head.tau, 1);
  RowMatrix<double> profiles = RowMatrix<double>::Zero(one.entries, maker.width());
  measure::add_features<double>({&one, 1}, fixture.head.tau, profiles);
  const auto sizes = maker.summary().sizes;
  for (int i = 0; i < one.entries; ++i) {
    EXPECT_NEAR(sizes[size_t(i)], profiles.row(i).squaredNorm(), 1e-12);
  }
}

/// Queries that come in two parts, in buckets of their own, make the same Gram matrix.
TEST(MeasureFeatures, PartsOfTheQueriesAddUp) {
  const MeasureFixture fixture;
  const Parts parts(fixture, {0, 4});
  const auto part = [&](size_t k) {
    const auto& responses = parts.responses[k];
    RowMatrix<double> out = RowMatrix<double>::Zero(32, responses.queries * 9);
    measure::add_features<double>({&responses, 1}, fixture.head.tau, out);
    return out;
  };
  const auto four = part(0), two = part(1);
  EXPECT_NEAR(four.row(4).dot(four.row(9)) + two.row(4).dot(two.row(9)), fixture.head.gram(4, 9),
              1e-12);
}

}  // namespace
}  // namespace pith::test

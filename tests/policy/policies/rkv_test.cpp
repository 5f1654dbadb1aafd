#include <gtest/gtest.h>

#include <cmath>

#include "policy/policy.h"
#include "support/expect_error.h"
#include "support/one_head.h"

namespace pith::test {

namespace {

void expect_scores(const std::string& spec, const Synthetic& synthetic,
                   const std::vector<double>& expected) {
  const Scores scores = Policy::parse(spec).score(synthetic.context(4));
  ASSERT_EQ(scores.rows[0].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(double(scores.rows[0][i]), expected[i], 1e-6) << spec << " entry " << i;
  }
}

std::vector<double> softmax(const std::vector<double>& logits) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  std::vector<double> out;
  for (const double x : logits) out.push_back(std::exp(x) / sum);
  return out;
}

/// Redundancy of four entries whose cosines to the others sum up to these.
std::vector<double> redundancy(const std::vector<int>& sums) {
  std::vector<double> means;
  for (const int sum : sums) means.push_back(sum / 4.0);
  return softmax(means);
}

std::vector<double> negative(const std::vector<double>& numbers) {
  std::vector<double> out;
  for (const double x : numbers) out.push_back(-x);
  return out;
}

/// Attention of the last position: 1/8, 2/8, 4/8, 1/8. Keys are 0, 1, 2, 0 times (log 2, 0).
Synthetic eighths() { return one_head({1, 2, 4, 1}, {4, 0, 2, -4}); }

/// Three keys of one direction, then one across.
Synthetic three_alike() {
  Synthetic synthetic = eighths();
  synthetic.cache.rows[0].keys = {2, 0, 7, 0, 1, 0, 0, 3};
  return synthetic;
}

TEST(Rkv, KeysAlikeAreRedundant) {
  expect_scores("rkv(lambda=0,recent=0)", three_alike(), negative(redundancy({2, 2, 2, 0})));
}

// The first two do not count against the third, and the third not against the second.
TEST(Rkv, AKeyDoesNotCountAgainstTheNewestAlike) {
  expect_scores("rkv(lambda=0)", three_alike(), negative(redundancy({2, 1, 0, 0})));
}

TEST(Rkv, MayCountAgainstSeveralOfTheNewest) {
  expect_scores("rkv(lambda=0,recent=2)", three_alike(), negative(redundancy({0, 0, 0, 0})));
}

TEST(Rkv, OnlyKeysMoreAlikeThanTheThresholdAreSpared) {
  expect_scores("rkv(lambda=0,threshold=1)", three_alike(), negative(redundancy({2, 2, 2, 0})));
}

TEST(Rkv, ImportanceIsTheAttentionAndThatOfItsNeighbours) {
  expect_scores("rkv(lambda=1,kernel=1)", eighths(), {0.125, 0.25, 0.5, 0.125});
  expect_scores("rkv(lambda=1,kernel=3)", eighths(), {0.25, 0.5, 0.5, 0.5});
}

// The second position's query sees the weights 1, 1/2, 1/4, 1, whose sum is 11/4; the first sees
// the first entry and, as its own, the second: 1/3, 2/3.
TEST(Rkv, ImportanceIsTheMeanOverTheLastQueries) {
  Synthetic synthetic = eighths();
  synthetic.seen.positions = {1, 3};
  synthetic.seen.query = {{1, 0, -1, 0}};
  expect_scores("rkv(lambda=1,kernel=1)", synthetic,
                {(1.0 / 3 + 4.0 / 11) / 2, (2.0 / 3 + 2.0 / 11) / 2, 1.0 / 22, 4.0 / 22});
  expect_scores("rkv(lambda=1,kernel=1,window=1)", synthetic,
                {4.0 / 11, 2.0 / 11, 1.0 / 11, 4.0 / 11});
}

TEST(Rkv, ImportanceIsTheMostThatAQueryHeadOfTheGroupPays) {
  Synthetic synthetic = eighths();
  synthetic.cache.model_shape.n_head = synthetic.weights.model_shape.n_head = 2;
  synthetic.seen.query = {{1, 0, -1, 0}};
  expect_scores("rkv(lambda=1,kernel=1)", synthetic, {4.0 / 11, 1.0 / 4, 1.0 / 2, 4.0 / 11});
}

// Keys 1 and 2 are alike; the others have no direction. By default lambda is 0.1.
TEST(Rkv, ImportanceLessRedundancy) {
  const auto redundant = redundancy({0, 1, 1, 0});
  expect_scores("rkv(kernel=1,recent=0)", eighths(),
                {0.0125 - 0.9 * redundant[0], 0.025 - 0.9 * redundant[1], 0.05 - 0.9 * redundant[2],
                 0.0125 - 0.9 * redundant[3]});
}

/// The table of cosines [length][length] as the paper has it, each row without itself and without
/// the newest entries alike.
std::vector<std::vector<double>> cosines(const SyntheticCache::Row& row, size_t d, double threshold,
                                         int recent) {
  const size_t n = row.positions.size();
  const auto dot = [&](size_t i, size_t j) {
    double sum = 0;
    for (size_t c = 0; c < d; ++c) sum += double(row.keys[i * d + c]) * double(row.keys[j * d + c]);
    return sum;
  };
  std::vector<std::vector<double>> table(n, std::vector<double>(n, 0.0));
  for (size_t i = 0; i < n; ++i) {
    int left = recent;
    for (size_t j = n; j-- > 0;) {
      const double cosine = i == j ? 0 : dot(i, j) / std::sqrt(dot(i, i) * dot(j, j));
      if (cosine > threshold && left-- > 0) continue;
      table[i][j] = cosine;
    }
  }
  return table;
}

TEST(Rkv, RedundancyEqualsThatOfTheWholeTable) {
  const auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {150, 33}});
  const Scores scores =
      Policy::parse("rkv(lambda=0,threshold=0.2,recent=3)").score(synthetic.context(40));
  for (size_t r = 0; r < scores.rows.size(); ++r) {
    const auto table = cosines(synthetic.cache.rows[r], 16, 0.2, 3);
    std::vector<double> mean(table.size(), 0.0);
    for (const auto& row : table) {
      for (size_t j = 0; j < row.size(); ++j) mean[j] += row[j] / double(row.size());
    }
    const auto expected = softmax(mean);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(double(scores.rows[r][i]), -expected[i], 1e-6) << "row " << r << " entry " << i;
    }
  }
}

TEST(Rkv, RefusesAnEvenKernel) {
  expect_error(ErrorCode::usage, "it must be odd", [] { Policy::parse("rkv(kernel=2)"); });
}

TEST(Rkv, NeedsObservedPositions) {
  Synthetic synthetic = eighths();
  synthetic.seen = {};
  expect_error(ErrorCode::usage, "rkv needs observed positions",
               [&] { Policy::parse("rkv").score(synthetic.context(4)); });
}

}  // namespace

}  // namespace pith::test

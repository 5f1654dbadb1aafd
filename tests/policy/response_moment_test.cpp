#include "policy/response_moment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/risk.h"
#include "policy/abstain.h"
#include "reference/attention_probs.hpp"
#include "reference/eigenvalues.hpp"
#include "reference/measure.hpp"
#include "support/expect_error.h"
#include "support/synthetic.h"

namespace pith::test {
namespace {

/// One head with its attention by the reference; `seen` asks.
reference::MeasureCase dense_case(const PolicyContext& context, const Observation& seen, int layer,
                                  int head_kv) {
  const ModelShape& shape = context.cache.shape();
  const int n = context.cache.length(layer, head_kv), m = int(seen.positions.size());
  reference::MeasureCase out{.entries = n,
                             .queries = m * shape.group(),
                             .head_dim = shape.head_dim,
                             .alpha = std::vector<double>(size_t(n * m * shape.group())),
                             .values = {}};
  const PolicyContext asking{.cache = context.cache,
                             .seen = seen,
                             .weights = context.weights,
                             .protection = {},
                             .progress = {}};
  for (int q = 0; q < out.queries; ++q) {
    const int head = head_kv * shape.group() + q % shape.group();
    const auto alpha = reference::attention(asking, layer, head, q / shape.group());
    for (int i = 0; i < n; ++i) out.alpha[size_t(i * out.queries + q)] = alpha[size_t(i)];
  }
  std::vector<float> values(size_t(n) * size_t(shape.head_dim));
  context.cache.values(layer, head_kv, 0, values);
  out.values.assign(values.begin(), values.end());
  double squares = 0;
  for (const double v : out.values) squares += v * v;
  out.tau = 0.3 * std::sqrt(squares / n);
  return out;
}

std::vector<double> gram_of(const reference::MeasureCase& head) {
  std::vector<double> out;
  for (int i = 0; i < head.entries; ++i) {
    for (int j = 0; j < head.entries; ++j) out.push_back(head.gram(i, j));
  }
  return out;
}

/// Keeps every third entry, the first ones with weights.
RowPlan some_plan(int entries) {
  RowPlan plan;
  for (int i = 0; i < entries; i += 3) plan.keep.push_back(i);
  plan.log_weight.assign(plan.keep.size(), 0);
  plan.log_weight[0] = 0.7F;
  if (plan.keep.size() > 1) plan.log_weight[1] = -0.4F;
  return plan;
}

class Moment : public testing::Test {
 protected:
  static constexpr int kEntries = 24;
  Synthetic synthetic_ = make_synthetic(
      {.shape = small_shape(1, 2, 2), .lengths = {kEntries}, .observed = 20, .log_weights = true});
  PolicyContext context_ = synthetic_.context(synthetic_.cache.total_entries());
};

/// Trace, eigenvalues, quadratic form and mass against dense matrices in double.
TEST_F(Moment, EqualsTheDenseOne) {
  for (const Reading& reading : {kTailQueries, kFutureQueries}) {
    const Observation seen = reading.source == Source::tail ? context_.seen.tail(reading.count)
                                                            : reference::future(context_);
    const ResponseMoment moment(context_, reading, 0, 1, 16);
    const auto head = dense_case(context_, seen, 0, 1);
    const auto gram = gram_of(head);
    const auto eigenvalues = reference::eigenvalues(gram, kEntries), found = moment.spectrum();
    const double tr = moment.trace();
    for (size_t k = 0; k < eigenvalues.size(); ++k) {
      EXPECT_NEAR(found[k], eigenvalues[k], 1e-5 * tr) << k;
    }
    const RowPlan plan = some_plan(kEntries);
    std::vector<double> gone(size_t(kEntries), 1);
    for (size_t k = 0; k < plan.keep.size(); ++k) {
      gone[size_t(plan.keep[k])] = 1 - std::exp(double(plan.log_weight[k]));
    }
    double form = 0, mass = 0, trace = 0;
    for (int i = 0; i < kEntries; ++i) {
      trace += head.gram(i, i);
      for (int j = 0; j < kEntries; ++j) {
        form += gone[size_t(i)] * gone[size_t(j)] * gram[size_t(i * kEntries + j)];
      }
      for (int q = 0; i % 3 != 0 && q < head.queries; ++q) {
        mass += head.alpha[size_t(i * head.queries + q)] / head.queries;
      }
    }
    EXPECT_NEAR(tr, trace, 1e-5 * trace);
    EXPECT_NEAR(moment.error_of(plan), form, 1e-4 * form);
    EXPECT_NEAR(moment.evicted_mass(plan), mass, 1e-5);
  }
}

/// 17 columns for 24 entries: the sketch that response_features() makes of the same queries.
TEST_F(Moment, ALongRowIsThatOfItsSketch) {
  ASSERT_TRUE(is_sketched(kEntries, 16, 1));
  ASSERT_FALSE(is_sketched(kEntries, 16, 2));
  const ResponseMoment moment(context_, kFutureQueries, 0, 0, 1);
  const Features phi = response_features(context_, {&kFutureQueries, 1}, 0, 0, 1);
  const Eigen::MatrixXd gram = (phi * phi.transpose()).cast<double>();
  const auto dense = reference::eigenvalues({gram.data(), gram.data() + gram.size()}, kEntries);
  const auto found = moment.spectrum();
  ASSERT_EQ(found.size(), 17U);
  for (size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], dense[k], 1e-5 * dense[0]);
  EXPECT_NEAR(moment.trace(), gram.trace(), 1e-5 * gram.trace());
  const RowPlan plan = some_plan(kEntries);
  Eigen::VectorXd gone = Eigen::VectorXd::Ones(kEntries);
  for (size_t k = 0; k < plan.keep.size(); ++k) {
    gone[plan.keep[k]] = 1 - std::exp(double(plan.log_weight[k]));
  }
  const double form = gone.dot(gram * gone);
  EXPECT_NEAR(moment.error_of(plan), form, 1e-4 * form);
}

/// Few queries are rounded as they are made, many after their sum: the same rows either way.
TEST_F(Moment, RoundedResponsesAreThoseOfTheFeatures) {
  const std::array<Reading, 2> readings{kFutureQueries, kTailQueries};
  for (const size_t times : {1, 4}) {  // four times both are more than one batch
    std::vector<Reading> many;
    for (size_t k = 0; k < times; ++k) many.insert(many.end(), readings.begin(), readings.end());
    const Features phi = response_features(context_, many, 0, 1, 3);
    const measure::ByteRows expected(phi);
    const Eligible eligible{2, kEntries - 5};
    std::vector<float> sizes;
    const auto [entries, found, target] =
        rounded_responses(context_, many, 0, 1, 3, eligible, [&](std::span<const float> seen) {
          sizes.assign(seen.begin(), seen.end());
          return std::vector<int>{2, 3, 4, 5, 9, 10, 11, 12, kEntries - 6};
        });
    ASSERT_EQ(int(sizes.size()), kEntries);
    ASSERT_EQ(found.rows(), Eigen::Index(entries.size()));
    ASSERT_EQ(found.width(), expected.width());
    const measure::ByteRows::Row x = measure::ByteRows::Row::LinSpaced(found.width(), -1, 1);
    for (int k = 0; k < int(entries.size()); ++k) {
      const int i = entries[size_t(k)];
      const float size = phi.row(i).norm() * x.norm(), squares = phi.row(i).squaredNorm();
      EXPECT_NEAR(found.squared_norm(k), squares, 0.02F * squares);
      EXPECT_NEAR(found.dot(k, x), expected.dot(i, x), 1e-4F * size) << i;
      EXPECT_GT(sizes[size_t(i)], squares / 30) << i;
      EXPECT_LT(sizes[size_t(i)], squares * 30) << i;
    }
    measure::ByteRows::Row sum = measure::ByteRows::Row::Zero(target.size());
    for (int i = eligible.first; i < eligible.last; ++i) {
      const auto made = std::ranges::find(entries, i);
      if (made == entries.end()) {
        sum.head(phi.cols()) += phi.row(i);
      } else {
        found.add(int(made - entries.begin()), 1, sum);
      }
    }
    EXPECT_LT((target - sum).norm(), 1e-5F * phi.norm());
    EXPECT_EQ(target.tail(target.size() - phi.cols()).norm(), 0);
  }
}

TEST_F(Moment, KeepingAllLosesNothing) {
  for (const int buckets : {1, 16}) {
    const ResponseMoment moment(context_, kFutureQueries, 0, 0, buckets);
    EXPECT_EQ(moment.error_of(whole_row(kEntries)), 0);
    EXPECT_EQ(moment.evicted_mass(whole_row(kEntries)), 0);
  }
}

TEST_F(Moment, ZeroValuesHaveNothingToLose) {
  for (auto& row : synthetic_.cache.rows) std::ranges::fill(row.values, 0.0F);
  for (const int buckets : {1, 16}) {
    const ResponseMoment moment(context_, kFutureQueries, 0, 0, buckets);
    EXPECT_EQ(moment.trace(), 0);
    EXPECT_EQ(measure::share_of(moment.error_of(some_plan(kEntries)), moment.trace()), 0);
    for (const double eigenvalue : moment.spectrum()) EXPECT_EQ(eigenvalue, 0);
  }
}

/// Every entry gets the same attention: what goes is what is counted.
TEST_F(Moment, EqualKeysPayAlike) {
  for (auto& row : synthetic_.cache.rows) {
    std::ranges::fill(row.keys, 0.5F);
    row.log_weights.clear();
  }
  const ResponseMoment moment(context_, kFutureQueries, 0, 0, 16);
  EXPECT_NEAR(moment.evicted_mass(some_plan(kEntries)), 2.0 / 3, 1e-5);
  EXPECT_GT(moment.trace(), 0);
  const auto eigenvalues = moment.spectrum();
  // All queries answer alike: no more directions than a value has numbers, and the mass.
  EXPECT_LT(measure::tail_sum(eigenvalues, 17), 1e-5 * moment.trace());
}

TEST_F(Moment, OneEntryIsOneDirection) {
  const auto one = make_synthetic({.shape = small_shape(1, 1, 2), .lengths = {1}, .observed = 1});
  const ResponseMoment moment(one.context(1), kTailQueries, 0, 0, 16);
  ASSERT_EQ(moment.spectrum().size(), 1U);
  EXPECT_NEAR(moment.spectrum()[0], moment.trace(), 1e-6 * moment.trace());
  EXPECT_EQ(moment.error_of(whole_row(1)), 0);
}

TEST_F(Moment, NothingObservedIsRefused) {
  context_.prompt = context_.future = nullptr;
  expect_error(ErrorCode::usage, "needs observed positions",
               [&] { ResponseMoment(context_, kFutureQueries, 0, 0, 16); });
}

TEST_F(Moment, AbstainingNamesTheHeadsAndWhatTheyAdd) {
  Plan plan;
  for (int row = 0; row < 2; ++row) plan.rows.push_back(some_plan(kEntries));
  Plan same = plan;
  EXPECT_GT(abstain(same, 1e9, context_), 0U);
  EXPECT_EQ(same.total(), plan.total());
  EXPECT_TRUE(same.notes.empty());
  abstain(plan, 1e-9, context_);
  EXPECT_EQ(plan.total(), 2 * kEntries);
  EXPECT_TRUE(plan.rows[0].log_weight.empty());
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_EQ(plan.notes[0],
            "kept whole, their plans' error being over 1e-09: layer 0 heads 0 1; 32 entries over "
            "the budget");
}

}  // namespace
}  // namespace pith::test

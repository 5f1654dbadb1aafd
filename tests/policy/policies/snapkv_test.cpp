#include <gtest/gtest.h>

#include <cmath>

#include "policy/policy.h"
#include "support/expect_error.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

/// One KV head read by two query heads of size 2. Head 0 reads the first number of each key, head 1
/// the second, so that attention is proportional to `a` and `b`. The observed positions are the
/// last three; the first of them looks the other way.
Synthetic two_heads(const std::vector<float>& a, const std::vector<float>& b) {
  Synthetic out;
  const ModelShape shape{
      .n_layer = 1, .n_head = 2, .n_head_kv = 1, .head_dim = 2, .n_embd = 1, .n_vocab = 1};
  out.cache.model_shape = out.weights.model_shape = shape;
  SyntheticCache::Row row;
  for (size_t i = 0; i < a.size(); ++i) {
    row.positions.push_back(int32_t(i));
    row.keys.insert(row.keys.end(), {std::log(a[i]), std::log(b[i])});
  }
  row.values.resize(row.keys.size());
  out.cache.rows = {row};
  out.cache.seen = int32_t(a.size());
  out.seen.positions = {out.cache.seen - 3, out.cache.seen - 2, out.cache.seen - 1};
  out.seen.query = {{-9, 0, 0, -9, 1, 0, 0, 1, 1, 0, 0, 1}};
  return out;
}

void expect_scores(const std::string& spec, const std::vector<double>& expected) {
  const Synthetic synthetic = two_heads({1, 2, 3, 4, 5, 5}, {4, 1, 1, 4, 2, 8});
  const Scores scores = Policy::parse(spec).score(synthetic.context(6));
  ASSERT_EQ(scores.rows.size(), 1U);
  ASSERT_EQ(scores.rows[0].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(scores.rows[0][i], expected[i], 1e-6) << i;
  }
}

// Window queries sit at 4 and 5 and see sums 15, 20 of a and 12, 20 of b. Mean attention to entries
// before the window is a * 7/120 and b * 8/120; to entries 4, 5 it is 7/24, 1/8 and 2/15, 1/5.

TEST(SnapKv, WithoutPooling) {
  const double prefix = 1.0 / 240;
  expect_scores("snapkv(window=2,kernel=1)",
                {39 * prefix, 22 * prefix, 29 * prefix, 60 * prefix, 51.0 / 240, 39.0 / 240});
}

TEST(SnapKv, AveragesNeighboursWithZerosOutside) {
  expect_scores("snapkv(window=2,kernel=3)",
                {61.0 / 720, 90.0 / 720, 111.0 / 720, 89.0 / 720, 1.0 / 8, 1.0 / 8});
}

TEST(SnapKv, MaximumOfNeighbours) {
  expect_scores("snapkv(window=2,kernel=3,pooling=max)",
                {46.0 / 240, 53.0 / 240, 60.0 / 240, 60.0 / 240, 59.0 / 240, 59.0 / 240});
}

TEST(SnapKv, KeepsTheBestOfTheRest) {
  const Synthetic synthetic = two_heads({1, 2, 3, 4, 5, 5}, {4, 1, 1, 4, 2, 8});
  PolicyContext context = synthetic.context(4);
  context.protection = {.sinks = 1, .window = 2};
  const Policy policy = Policy::parse("snapkv(window=2,kernel=3)");
  const Plan plan = policy.select(policy.score(context), context);
  EXPECT_EQ(plan.rows[0].keep, (std::vector<int32_t>{0, 2, 4, 5}));
}

TEST(SnapKv, SaysWhereFewerPositionsWereObserved) {
  const Synthetic synthetic = two_heads({1, 2, 3, 4}, {1, 1, 1, 1});
  const Scores scores = Policy::parse("snapkv").score(synthetic.context(4));
  ASSERT_EQ(scores.notes.size(), 1U);
  EXPECT_EQ(scores.notes[0], "snapkv: window 32 shrank to the 3 observed positions");
}

TEST(SnapKv, NeedsAnObservation) {
  Synthetic synthetic = two_heads({1, 2, 3, 4}, {1, 1, 1, 1});
  synthetic.seen = {};
  expect_error(ErrorCode::usage, "needs observed positions",
               [&] { Policy::parse("snapkv").score(synthetic.context(4)); });
}

TEST(SnapKv, ReadsItsWindow) { EXPECT_EQ(Policy::parse("snapkv(window=7)").needs().tail, 7); }

TEST(SnapKv, RefusesAnEvenKernel) {
  expect_error(ErrorCode::usage, "must be odd", [] { Policy::parse("snapkv(kernel=4)"); });
}

}  // namespace

}  // namespace pith::test

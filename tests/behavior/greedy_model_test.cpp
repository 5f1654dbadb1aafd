// The fast greedy beside the exact one on what the packaged model makes of real texts.

#include <gtest/gtest.h>

#include <cmath>

#include "behavior/greedy.h"
#include "policy/policies/behavior_inputs.h"
#include "policy/protection.h"
#include "session/session.h"
#include "support/packaged_model.h"

namespace pith::behavior {
namespace {

constexpr int kPositions = 32, kTopK = 64, kRank = 4, kThreads = 2;
constexpr double kAsGood = 1.05;

std::vector<Candidate> candidates(const PolicyContext& context, int row, int group) {
  const Eligible eligible = eligible_entries(context, row);
  std::vector<Candidate> out;
  for (int i = eligible.first; i < eligible.last; ++i) out.push_back({group, i});
  return out;
}

/// Two windows of the long text, `length` tokens each.
class RealWindow : public testing::TestWithParam<int> {
 protected:
  PolicyInput read(int length) {
    const auto tokens = model_.tokenize(test::long_text());
    session_.prefill(std::span(tokens).subspan(size_t(GetParam()), size_t(length)),
                     {.tail = kPositions});
    return session_.impl().input_of(policy_, 90L * 64, {.sinks = 4, .window = 32}, {});
  }

  Model model_ = Model::load(test::packaged_model());
  Session session_{model_, {.threads = kThreads, .n_ctx = 512}};
  Policy policy_ = Policy::parse("behavior");
};

/// objective=head: each group alone, three in four and nine in ten of its candidates evicted.
TEST_P(RealWindow, PathsOfGroupsCostAsLittleAsTheExactGreedys) {
  const PolicyInput input = read(400);
  const PolicyContext& context = input.context;
  const BehaviorInputs inputs(context, Objective::head, kPositions, kTopK, kRank);
  for (const double share : {0.75, 0.9}) {
    double exact_cost = 0, fast_cost = 0;
    for (int row = 4; row < context.cache.shape().n_rows(); row += 10) {
      GroupFeatures<float> features;
      const int n_head_kv = context.cache.shape().n_head_kv;
      inputs.make_features(row / n_head_kv, row % n_head_kv, features);
      const auto all = candidates(context, row, 0);
      GreedyOptions options{.evictions = int(share * double(all.size())), .max_halvings = 10};
      Mask<float> exact({&features, 1}, Objective::head), fast({&features, 1}, Objective::head);
      evict_exactly(exact, all, options);
      evict_with_recheck(fast, all, options);
      exact_cost += exact.cost();
      fast_cost += fast.cost();
    }
    EXPECT_GT(exact_cost, 0);
    EXPECT_LT(fast_cost, kAsGood * exact_cost) << share;
    EXPECT_GT(fast_cost, exact_cost / kAsGood) << share;
  }
}

/// The paper's letter: a pool of 1.5 candidates an eviction by single cost, the total of all heads.
TEST_P(RealWindow, TheTotalOverThePoolCostsAsLittleAsTheExactGreedys) {
  const PolicyInput input = read(96);
  const PolicyContext& context = input.context;
  const BehaviorInputs inputs(context, Objective::total, kPositions, kTopK, kRank);
  const int n_rows = context.cache.shape().n_rows(), n_head_kv = context.cache.shape().n_head_kv;
  std::vector<GroupFeatures<float>> features(static_cast<size_t>(n_rows));
  std::vector<Candidate> all, pool;
  for (int row = 0; row < n_rows; ++row) {
    inputs.make_features(row / n_head_kv, row % n_head_kv, features[size_t(row)]);
    const auto mine = candidates(context, row, row);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  GreedyOptions options{.evictions = int(all.size()) / 2, .max_halvings = 10, .threads = kThreads};
  Mask<float> exact(features, Objective::total), fast(features, Objective::total);
  const auto pooled = cheapest(exact, all, options.evictions * 3 / 2, kThreads);
  for (const auto& step : pooled) pool.push_back(step.evicted);
  evict_exactly(exact, pool, options);
  evict_with_recheck(fast, pool, options);
  EXPECT_GT(exact.cost(), 0);
  EXPECT_LT(fast.cost(), kAsGood * exact.cost());
}

INSTANTIATE_TEST_SUITE_P(Texts, RealWindow, testing::Values(200, 3000));

}  // namespace
}  // namespace pith::behavior

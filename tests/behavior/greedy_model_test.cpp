// The fast greedy beside the exact one on what the packaged model makes of real texts.

#include <gtest/gtest.h>

#include "behavior/greedy.h"
#include "policy/policies/behavior_inputs.h"
#include "policy/protection.h"
#include "session/session.h"
#include "support/packaged_model.h"

namespace pith::behavior {
namespace {

constexpr int kPositions = 32, kTopK = 64, kRank = 4, kThreads = 2;
constexpr double kAsGood = 1.05;
const SessionOptions kOptions{.threads = kThreads, .n_ctx = 512};

std::vector<Candidate> candidates(const PolicyContext& context, int row, int group) {
  const Eligible eligible = eligible_entries(context, row);
  std::vector<Candidate> out;
  for (int i = eligible.first; i < eligible.last; ++i) out.push_back({group, i});
  return out;
}

/// Windows of the long text.
class RealWindows : public testing::Test {
 protected:
  /// What a policy sees of the `length` tokens from `first` on.
  PolicyInput read(int first, int length) {
    session_ = Session(model_, kOptions);
    session_.prefill(std::span(tokens_).subspan(size_t(first), size_t(length)),
                     {.tail = kPositions});
    return session_.impl().input_of(policy_, 90L * 64, {.sinks = 4, .window = 32}, {});
  }

  Model model_ = Model::load(test::packaged_model());
  Session session_{model_, kOptions};
  Policy policy_ = Policy::parse("behavior");
  std::vector<int32_t> tokens_ = model_.tokenize(test::long_text());
};

/// What a head's choices cost, made each way.
struct Costs {
  double exact = 0, fast = 0;

  void add_group(const BehaviorInputs& inputs, const PolicyContext& context, int row,
                 double share) {
    GroupFeatures<float> features;
    const int n_head_kv = context.cache.shape().n_head_kv;
    inputs.make_features(row / n_head_kv, row % n_head_kv, features);
    const auto all = candidates(context, row, 0);
    const GreedyOptions options{.evictions = int(share * double(all.size())), .max_halvings = 10};
    Mask<float> one_by_one({&features, 1}, Objective::head), by_rounds = one_by_one;
    evict_exactly(one_by_one, all, options);
    evict_with_recheck(by_rounds, all, options);
    exact += one_by_one.cost();
    fast += by_rounds.cost();
  }
};

/// objective=head: each group alone, three in four and nine in ten of its candidates evicted. A
/// window's costs hang on a few choices between near equals; over several they agree.
TEST_F(RealWindows, PathsOfGroupsCostWhatTheExactGreedysCost) {
  for (const double share : {0.75, 0.9}) {
    Costs costs;
    for (const int first : {0, 1000, 3000, 5000, 7000}) {
      const PolicyInput input = read(first, 400);
      const BehaviorInputs inputs(input.context, Objective::head, kPositions, kTopK, kRank);
      for (int row = 4; row < input.context.cache.shape().n_rows(); row += 10) {
        costs.add_group(inputs, input.context, row, share);
      }
    }
    EXPECT_GT(costs.exact, 0);
    EXPECT_LT(costs.fast, kAsGood * costs.exact) << share;
    EXPECT_GT(costs.fast, costs.exact / kAsGood) << share;
  }
}

/// The paper's letter: a pool of 1.5 candidates an eviction by single cost, the total of all heads.
/// Evictions of several heads cancel down to less than a hundredth of what the cheapest candidates
/// cost together; there greedy orders part, and the exchange makes up for it.
TEST_F(RealWindows, TheTotalOverThePoolCostsNoMoreThanTheExactGreedys) {
  for (const int first : {200, 3000, 7000}) {
    const PolicyInput input = read(first, 96);
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
    const GreedyOptions options{
        .evictions = int(all.size()) / 2, .max_halvings = 10, .threads = kThreads};
    Mask<float> exact(features, Objective::total), fast = exact, single = exact;
    const auto pooled = cheapest(exact, all, options.evictions * 3 / 2, kThreads);
    for (const auto& step : pooled) pool.push_back(step.evicted);
    for (int i = 0; i < options.evictions; ++i) {
      single.evict(pool[size_t(i)].group, pool[size_t(i)].entry);
    }
    evict_exactly(exact, pool, options);
    auto steps = evict_with_recheck(fast, pool, options);
    exchange(fast, pool, steps, options);
    EXPECT_GT(exact.cost(), 0);
    EXPECT_LT(exact.cost(), 0.01 * single.cost());
    EXPECT_LT(fast.cost(), kAsGood * exact.cost());
  }
}

}  // namespace
}  // namespace pith::behavior

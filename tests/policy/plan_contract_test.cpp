#include <gtest/gtest.h>

#include <algorithm>

#include "policy/policy.h"
#include "policy/protection.h"
#include "support/every_policy.h"

namespace pith::test {

namespace {

class PlanContract : public EveryPolicy {};

/// Whether a wrapper of the spec chooses by more than the scores.
bool reselects(const std::string& name) {
  const std::string spec = Policy::parse(name).spec();
  return std::ranges::any_of(wrapper_rows(), [&](const WrapperRow& row) {
    return row.reselects && spec.find("+" + row.name) != std::string::npos;
  });
}

INSTANTIATE_TEST_SUITE_P(Registry, PlanContract, testing::ValuesIn(evicting_specs()),
                         spec_test_name);

TEST_P(PlanContract, HoldsAtEveryLengthAroundTheEdges) {
  for (const int length : {1, 2, 5, 6, 7, 19, 20, 21, 31, 32, 33, 60}) {
    const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {length}});
    for (const int kept : {1, 2, 20}) {
      SCOPED_TRACE(std::to_string(kept) + " of " + std::to_string(length));
      checked_plan(synthetic.context(int64_t{4} * kept + 1));
    }
  }
}

TEST_P(PlanContract, HoldsForEverySizeOfTotal) {
  const auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {12}});
  for (int64_t total = 2; total <= 26; ++total) checked_plan(synthetic.context(total));
}

TEST_P(PlanContract, BudgetOfAllOrMoreKeepsAll) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {9, 1, 30, 17}});
  for (const int64_t total : {57, 58, 5700}) {
    const Plan plan = checked_plan(synthetic.context(total));
    EXPECT_EQ(plan.total(), 57);
  }
}

TEST_P(PlanContract, HoldsForRaggedRows) {
  for (const int64_t total : {4, 8, 25, 60, 79}) {
    const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {1, 3, 50, 26}});
    checked_plan(synthetic.context(total));
  }
}

TEST_P(PlanContract, HoldsOnASecondCompression) {
  auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  const Plan first = checked_plan(synthetic.context(100));
  for (size_t r = 0; r < first.rows.size(); ++r) {
    SyntheticCache::Row& row = synthetic.cache.rows[r];
    SyntheticCache::Row rest;
    const auto copy = [&](const std::vector<float>& from, std::vector<float>& to, int32_t entry) {
      to.insert(to.end(), from.begin() + ptrdiff_t{16} * entry,
                from.begin() + ptrdiff_t{16} * (entry + 1));
    };
    for (const int32_t entry : first.rows[r].keep) {
      rest.positions.push_back(row.positions[size_t(entry)]);
      copy(row.keys, rest.keys, entry);
      copy(row.values, rest.values, entry);
    }
    row = rest;
  }
  checked_plan(synthetic.context(40));
}

TEST_P(PlanContract, HoldsForEveryGroupSize) {
  for (const int group : {1, 3, 8}) {
    const auto synthetic = make_synthetic({.shape = small_shape(2, 2, group), .lengths = {40}});
    checked_plan(synthetic.context(40));
  }
}

TEST_P(PlanContract, HoldsWithoutProtection) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {12, 30, 1, 2}});
  for (const int64_t total : {4, 5, 20}) {
    PolicyContext context = synthetic.context(total);
    context.protection = {.sinks = 0, .window = 0};
    checked_plan(context);
  }
}

TEST_P(PlanContract, HoldsWithAProtectedPrompt) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {60, 7, 33, 1}});
  for (const int32_t prompt : {1, 20, 57, 58, 60, 1000}) {
    PolicyContext context = synthetic.context(80);
    context.protection = {.sinks = 0, .window = 2, .prompt = prompt};
    context.keep_total = std::max<int64_t>(80, row_limits(context).least_total);
    checked_plan(context);
  }
}

TEST_P(PlanContract, HoldsWithLogWeights) {
  const auto synthetic =
      make_synthetic({.shape = small_shape(), .lengths = {40, 7, 22, 1}, .log_weights = true});
  checked_plan(synthetic.context(24));
}

TEST_P(PlanContract, HoldsForExtremeLogits) {
  for (const float factor : {1e4F, -1e4F}) {
    auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {40}});
    std::vector<Observation*> all = {&synthetic.seen, &synthetic.prompt, &synthetic.lookahead};
    for (Observation& part : synthetic.repeat) all.push_back(&part);
    for (Observation* seen : all) {
      for (auto& layer : seen->query) {
        for (float& x : layer) x *= factor;
      }
    }
    checked_plan(synthetic.context(40));
  }
}

TEST_P(PlanContract, HoldsForEqualKeysAndValues) {
  auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {40}});
  for (auto& row : synthetic.cache.rows) {
    std::fill(row.keys.begin(), row.keys.end(), 0.5F);
    std::fill(row.values.begin(), row.values.end(), -0.25F);
  }
  checked_plan(synthetic.context(40));
}

/// Scores and values of all rows are equal: the sinks and the newest stay, whatever the rule.
TEST_P(PlanContract, TiesGoToTheNewer) {
  auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {12}});
  for (auto& row : synthetic.cache.rows) std::fill(row.values.begin(), row.values.end(), 1.0F);
  for (auto& layer : synthetic.weights.w_o) std::fill(layer.begin(), layer.end(), 1.0F);
  PolicyContext context = synthetic.context(20);
  context.protection = {.sinks = 1, .window = 2};
  Scores scores;
  for (size_t row = 0; row < 4; ++row) scores.rows.emplace_back(12, 1.0F);
  const Plan plan = Policy::parse(GetParam()).select(scores, context);
  EXPECT_EQ(plan_fault(plan, context), "");
  if (reselects(GetParam())) return;
  for (const RowPlan& row : plan.rows) {
    const auto newest = int(row.keep.size()) - 1;
    EXPECT_EQ(row.keep[0], 0);
    EXPECT_EQ(row.keep[1], 12 - newest);
  }
}

}  // namespace

}  // namespace pith::test

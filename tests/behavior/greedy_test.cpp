#include "behavior/greedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/behavior_fixture.h"

namespace pith::test {
namespace {

using behavior::Candidate;
using behavior::GreedyOptions;
using behavior::Mask;
using behavior::Objective;
using behavior::Step;

template <class T>
std::vector<Candidate> evicted(const std::vector<Step<T>>& steps) {
  std::vector<Candidate> out;
  out.reserve(steps.size());
  for (const auto& step : steps) out.push_back(step.evicted);
  return out;
}

template <class T>
std::vector<double> costs(const std::vector<Step<T>>& steps) {
  std::vector<double> out;
  out.reserve(steps.size());
  double sum = 0;
  for (const auto& step : steps) out.push_back(sum += double(step.rise));
  return out;
}

class GreedyTest : public testing::TestWithParam<Objective> {
 protected:
  GreedyTest() : case_(fixture_.of(GetParam())) {}

  Candidate candidate(const nlohmann::json& triple) const {
    return {int(triple[0]) * case_.n_head_kv + int(triple[1]), triple[2]};
  }

  std::vector<Candidate> order(const nlohmann::json& run) const {
    std::vector<Candidate> out;
    for (const auto& triple : run["order"]) out.push_back(candidate(triple));
    return out;
  }

  template <class T>
  std::vector<Step<T>> exact(const std::vector<Candidate>& candidates, double eps) const {
    const auto features = features_of<T>(case_);
    Mask<T> mask(features, GetParam(), case_.p);
    return evict_exactly(mask, candidates, {.evictions = 48, .eps = eps});
  }

  template <class T>
  std::vector<Candidate> pool(int size) const {
    const auto features = features_of<T>(case_);
    const Mask<T> mask(features, GetParam(), case_.p);
    return evicted(cheapest(mask, fixture_.candidates(), size));
  }

  const nlohmann::json& run(const char* name) const {
    return fixture_.json()[name][fixture_name(GetParam())];
  }

  void expect_costs(const nlohmann::json& run, const std::vector<double>& costs,
                    double tolerance) const {
    ASSERT_EQ(costs.size(), run["cost"].size());
    for (size_t i = 0; i < costs.size(); ++i) {
      const double expected = run["cost"][i];
      EXPECT_NEAR(costs[i], expected, tolerance * expected) << "step " << i;
    }
  }

  BehaviorFixture fixture_;
  const reference::BehaviorCase& case_;
};

TEST_P(GreedyTest, ExactOrderIsTheFixtures) {
  const auto steps = exact<double>(fixture_.candidates(), 0.05);
  EXPECT_EQ(evicted(steps), order(run("greedy")));
  expect_costs(run("greedy"), costs(steps), 1e-5);
}

TEST_P(GreedyTest, F32SwapsOnlyNeighboursOfNearlyEqualCost) {
  const auto steps = exact<float>(fixture_.candidates(), 0.05);
  const auto expected = order(run("greedy"));
  const auto got = evicted(steps);
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    ASSERT_LT(i + 1, got.size());
    EXPECT_EQ(got[i], expected[i + 1]);
    EXPECT_EQ(got[i + 1], expected[i]);
    EXPECT_LT(std::abs(steps[i].rise - steps[i + 1].rise), 1e-4);
    ++i;
  }
  expect_costs(run("greedy"), costs(steps), 1e-3);
}

TEST_P(GreedyTest, RecheckEndsNearTheExactGreedy) {
  const auto features = features_of<double>(case_);
  const double exact_cost = run("greedy")["cost"].back();
  for (const double share : {0.05, 0.15}) {
    Mask<double> mask(features, GetParam(), case_.p);
    const auto steps =
        evict_with_recheck(mask, fixture_.candidates(), {.evictions = 48, .share = share});
    EXPECT_EQ(steps.size(), 48U);
    EXPECT_NEAR(mask.cost(), costs(steps).back(), 1e-12);
    EXPECT_LT(mask.cost(), 1.05 * exact_cost) << share;
    EXPECT_GE(mask.least_retained(), 0.05);
  }
}

TEST_P(GreedyTest, AnExchangeOnlyBettersAndKeepsTheCount) {
  const auto features = features_of<double>(case_);
  const auto candidates = fixture_.candidates();
  Mask<double> mask(features, GetParam(), case_.p), naive = mask;
  auto steps = cheapest(mask, candidates, 48);  // a bad start: single costs
  for (const auto& step : steps) naive.evict(step.evicted.group, step.evicted.entry);
  mask = naive;
  exchange(mask, candidates, steps, {});
  EXPECT_LT(mask.cost(), naive.cost());
  EXPECT_GE(mask.least_retained(), 0.05);

  reference::Evicted gone(size_t(features.size()) * size_t(case_.entries), false);
  for (const auto& [group, entry] : evicted(steps)) {
    gone[size_t(group) * size_t(case_.entries) + size_t(entry)] = true;
  }
  EXPECT_EQ(std::count(gone.begin(), gone.end(), true), 48);
  EXPECT_NEAR(mask.cost(), reference::mask_cost(case_, gone, GetParam()), 1e-9);
}

TEST_P(GreedyTest, AnExchangeEndsNoDearerThanTheExactGreedy) {
  const auto features = features_of<double>(case_);
  for (const double share : {0.05, 0.1, 0.15}) {
    Mask<double> mask(features, GetParam(), case_.p);
    const GreedyOptions options{.evictions = 48, .share = share};
    auto steps = evict_with_recheck(mask, fixture_.candidates(), options);
    exchange(mask, fixture_.candidates(), steps, options);
    EXPECT_LT(mask.cost(), 1.05 * double(run("greedy")["cost"].back())) << share;
  }
}

TEST_P(GreedyTest, AnExchangeOfNothingOrEverythingChangesNothing) {
  const auto features = features_of<double>(case_);
  Mask<double> mask(features, GetParam(), case_.p);
  std::vector<Step<double>> none;
  exchange(mask, fixture_.candidates(), none, {});
  EXPECT_TRUE(none.empty());
  const GreedyOptions all{.max_halvings = 10};
  auto steps = evict_with_recheck(mask, fixture_.candidates(), all);
  const auto before = evicted(steps);
  exchange(mask, before, steps, all);
  EXPECT_EQ(evicted(steps), before);
}

TEST_P(GreedyTest, RecheckAndExchangeAreTheSameForAnyNumberOfThreads) {
  const auto features = features_of<float>(case_);
  const auto candidates = fixture_.candidates();
  const auto order_with = [&](int threads) {
    Mask<float> mask(features, GetParam(), case_.p);
    const GreedyOptions options{.evictions = int(candidates.size()) / 2, .threads = threads};
    auto steps = evict_with_recheck(mask, candidates, options);
    exchange(mask, candidates, steps, options);
    return evicted(steps);
  };
  const auto one = order_with(1);
  EXPECT_EQ(one, order_with(2));
  EXPECT_EQ(one, order_with(5));
}

TEST_P(GreedyTest, EpsIsHalvedOnlyWhenNothingElseCanGo) {
  const auto features = features_of<double>(case_);
  Mask<double> mask(features, GetParam(), case_.p);
  const auto steps =
      evict_with_recheck(mask, fixture_.candidates(), {.eps = 0.4, .max_halvings = 3});
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end(),
                             [](const auto& a, const auto& b) { return a.halvings < b.halvings; }));
  EXPECT_GT(steps.back().halvings, 0);

  Mask<double> strict(features, GetParam(), case_.p);
  const auto without = evict_with_recheck(strict, fixture_.candidates(), {.eps = 0.4});
  EXPECT_LT(without.size(), steps.size());
  EXPECT_GE(strict.least_retained(), 0.4);
  EXPECT_EQ(without.size(), size_t(std::count_if(steps.begin(), steps.end(),
                                                 [](const auto& s) { return s.halvings == 0; })));
}

INSTANTIATE_TEST_SUITE_P(Objectives, GreedyTest,
                         testing::Values(Objective::head, Objective::layer, Objective::total,
                                         Objective::kl),
                         [](const auto& tested) { return fixture_name(tested.param); });

class GreedyPoolTest : public GreedyTest {};

TEST_P(GreedyPoolTest, OrderWithinAPoolIsTheFixtures) {
  const auto steps = exact<double>(pool<double>(53), 0.05);
  EXPECT_EQ(evicted(steps), order(run("greedy_pool11")));
  expect_costs(run("greedy_pool11"), costs(steps), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Objectives, GreedyPoolTest,
                         testing::Values(Objective::total, Objective::kl),
                         [](const auto& tested) { return fixture_name(tested.param); });

class GreedyEpsTest : public GreedyTest {};

TEST_P(GreedyEpsTest, OrderUnderALargeEpsIsTheFixtures) {
  const double eps = fixture_.json()["greedy_eps30_value"];
  const auto steps = exact<double>(fixture_.candidates(), eps);
  EXPECT_EQ(evicted(steps), order(run("greedy_eps30")));
  expect_costs(run("greedy_eps30"), costs(steps), 1e-5);
}

TEST_P(GreedyEpsTest, WhatTheFixtureRejectsWouldLeaveTooLittle) {
  const auto features = features_of<double>(case_);
  Mask<double> mask(features, GetParam(), case_.p);
  Mask<double>::Scratch scratch;
  for (const Candidate& c : order(run("greedy_eps30"))) mask.evict(c.group, c.entry);
  for (const auto& triple : run("greedy_eps30")["rejected"]) {
    const Candidate c = candidate(triple);
    EXPECT_TRUE(std::isinf(mask.rise(c.group, c.entry, 0.3, scratch)));
    EXPECT_TRUE(std::isfinite(mask.rise(c.group, c.entry, 0.01, scratch)));
  }
}

INSTANTIATE_TEST_SUITE_P(Objectives, GreedyEpsTest, testing::Values(Objective::kl),
                         [](const auto& tested) { return fixture_name(tested.param); });

}  // namespace
}  // namespace pith::test

#include <gtest/gtest.h>

#include <cmath>

#include "policy/policy.h"
#include "support/every_policy.h"
#include "support/expect_error.h"

namespace pith::test {

namespace {

class RunContract : public EveryPolicy {};

INSTANTIATE_TEST_SUITE_P(Registry, RunContract, testing::ValuesIn(evicting_specs()),
                         spec_test_name);

Synthetic some_cache(uint32_t seed = 1) {
  return make_synthetic(
      {.shape = small_shape(3, 2), .lengths = {40, 40, 25, 40, 3, 40}, .seed = seed});
}

TEST_P(RunContract, SameForAnyNumberOfThreads) {
  const Synthetic synthetic = some_cache();
  const auto one = kept(checked_plan(synthetic.context(48, 1)));
  EXPECT_EQ(kept(checked_plan(synthetic.context(48, 2))), one);
  EXPECT_EQ(kept(checked_plan(synthetic.context(48, 3))), one);
}

TEST_P(RunContract, RatesMasks) {
  const Synthetic synthetic = some_cache();
  const Policy policy = Policy::parse(GetParam());
  const auto rate = [&](int threads) {
    const PolicyContext context = synthetic.context(48, threads);
    const std::vector<Plan> masks{run_policy("random", context), run_policy("streaming", context)};
    return policy.mask_costs(masks, policy.score(context), context);
  };
  const auto costs = rate(1);
  ASSERT_EQ(costs.size(), 2U);
  const auto again = rate(3);
  for (size_t m = 0; m < 2; ++m) {
    EXPECT_TRUE(std::isfinite(costs[m]) && costs[m] >= 0) << costs[m];
    EXPECT_NEAR(again[m], costs[m], 1e-5 * costs[m]);
  }
}

TEST_P(RunContract, KeepsNothingOfAnEarlierCall) {
  const Synthetic a = some_cache(1);
  const Synthetic b = some_cache(2);
  const Policy policy = Policy::parse(GetParam());
  const auto run = [&](const Synthetic& synthetic) {
    const PolicyContext context = synthetic.context(48);
    return kept(policy.select(policy.score(context), context));
  };
  const auto first = run(a);
  run(b);
  EXPECT_EQ(run(a), first);
  EXPECT_EQ(kept(run_policy(GetParam(), a.context(48))), first);
}

TEST_P(RunContract, ScoresEveryEntryAndLeavesTheObservationAlone) {
  const Synthetic synthetic = some_cache();
  const auto query_before = synthetic.seen.query;
  const Scores scores = Policy::parse(GetParam()).score(synthetic.context(48));
  ASSERT_EQ(scores.rows.size(), synthetic.cache.rows.size());
  for (size_t row = 0; row < scores.rows.size(); ++row) {
    EXPECT_EQ(scores.rows[row].size(), synthetic.cache.rows[row].positions.size());
  }
  EXPECT_EQ(synthetic.seen.query, query_before);
}

TEST_P(RunContract, WorksWithFewerObservedPositionsThanItReads) {
  for (const int observed : {1, 3}) {
    const auto synthetic =
        make_synthetic({.shape = small_shape(), .lengths = {40}, .observed = observed});
    checked_plan(synthetic.context(40));
  }
}

TEST_P(RunContract, StaysWithinScratchOrRefuses) {
  const Synthetic synthetic = some_cache();
  for (const size_t bytes : {size_t{1} << 30U, size_t{200'000}, size_t{20'000}, size_t{1'000}}) {
    PolicyContext context = synthetic.context(48, 2);
    context.scratch_bytes = bytes;
    try {
      EXPECT_LE(checked_plan(context).scratch_peak, bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::memory) << error.what();
      EXPECT_LT(bytes, size_t{1} << 30U) << error.what();
    }
  }
}

TEST_P(RunContract, ReportsProgressInOrder) {
  const Synthetic synthetic = some_cache();
  for (const int threads : {1, 3}) {
    PolicyContext context = synthetic.context(48, threads);
    double last = 0;
    context.progress = [&](double share) {
      EXPECT_GE(share, last);
      EXPECT_LE(share, 1);
      last = share;
      return true;
    };
    checked_plan(context);
    EXPECT_EQ(last, 1);
  }
}

TEST_P(RunContract, StopsWhenAsked) {
  const Synthetic synthetic = some_cache();
  for (const double until : {0.0, 0.5, 1.0}) {
    PolicyContext context = synthetic.context(48, 2);
    context.progress = [&](double share) { return share < until; };
    expect_error(ErrorCode::interrupted, "", [&] { run_policy(GetParam(), context); });
  }
}

}  // namespace

}  // namespace pith::test

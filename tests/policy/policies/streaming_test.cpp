#include <gtest/gtest.h>

#include "support/plan_checks.h"

namespace pith::test {

namespace {

TEST(Streaming, KeepsSinksAndTheNewest) {
  const auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {8}});
  PolicyContext context = synthetic.context(10);
  context.protection = {.sinks = 2, .window = 1};
  const std::vector<int32_t> expected{0, 1, 5, 6, 7};
  EXPECT_EQ(kept(run_policy("streaming", context)), (std::vector{expected, expected}));
}

TEST(Streaming, GoesByPositionNotByEntry) {
  auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {5}});
  synthetic.cache.rows[0].positions = {0, 1, 2, 3, 20};
  synthetic.cache.rows[1].positions = {0, 11, 12, 13, 20};
  PolicyContext context = synthetic.context(7);
  context.protection = {.sinks = 1, .window = 1};
  EXPECT_EQ(kept(run_policy("streaming+global", context)),
            (std::vector<std::vector<int32_t>>{{0, 4}, {0, 1, 2, 3, 4}}));
}

}  // namespace

}  // namespace pith::test

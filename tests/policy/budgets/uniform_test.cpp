#include <gtest/gtest.h>

#include "policy/budgets/budgets.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

std::vector<int> quotas(const std::vector<int>& lengths, int64_t keep_total,
                        Protection protection = {.sinks = 1, .window = 1}) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = lengths});
  PolicyContext context = synthetic.context(keep_total);
  context.protection = protection;
  return uniform_row().make({})->quotas({}, context);
}

TEST(UniformRule, EqualShares) { EXPECT_EQ(quotas({10}, 20), (std::vector<int>{5, 5, 5, 5})); }

TEST(UniformRule, RemainderGoesToTheFirstHeads) {
  EXPECT_EQ(quotas({10}, 23), (std::vector<int>{6, 6, 6, 5}));
}

TEST(UniformRule, ShortRowsHandOnWhatTheyLeave) {
  EXPECT_EQ(quotas({2, 10, 10, 10}, 24), (std::vector<int>{2, 8, 7, 7}));
  EXPECT_EQ(quotas({1, 3, 10, 10}, 20), (std::vector<int>{1, 3, 8, 8}));
}

TEST(UniformRule, ProtectedEntriesAreTheLeast) {
  EXPECT_EQ(quotas({10, 2, 2, 10}, 14, {.sinks = 2, .window = 3}), (std::vector<int>{5, 2, 2, 5}));
  EXPECT_EQ(quotas({9, 9, 1, 1}, 12, {.sinks = 1, .window = 1}), (std::vector<int>{5, 5, 1, 1}));
}

TEST(UniformRule, AllOrMoreKeepsAll) {
  EXPECT_EQ(quotas({3, 4, 5, 6}, 18), (std::vector<int>{3, 4, 5, 6}));
  EXPECT_EQ(quotas({3, 4, 5, 6}, 1000), (std::vector<int>{3, 4, 5, 6}));
}

TEST(UniformRule, NoProtectionStillKeepsOneEach) {
  EXPECT_EQ(quotas({10}, 4, {.sinks = 0, .window = 0}), (std::vector<int>{1, 1, 1, 1}));
}

}  // namespace

}  // namespace pith::test

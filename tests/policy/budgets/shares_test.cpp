#include <gtest/gtest.h>

#include "policy/budgets/budgets.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

const std::vector<HeadShares> kTable{{.kept = 0.5, .row = {0.95F, 0.05F}},
                                     {.kept = 0.25, .row = {0.9F, 0.1F}},
                                     {.kept = 0.0625, .row = {0.5F, 0.5F}}};

/// Two KV heads of 200 eligible entries and 2 protected ones.
std::vector<int> quotas(int64_t keep_total, const std::string& mix, const std::string& tight = "0",
                        const std::vector<HeadShares>& table = kTable) {
  auto synthetic = make_synthetic({.shape = small_shape(1), .lengths = {202}});
  synthetic.calibration.shares = table;
  PolicyContext context = synthetic.context(keep_total);
  context.protection = {.sinks = 1, .window = 1};
  KnobValues knobs;
  knobs.set("mix", mix);
  knobs.set("tight", tight);
  return shares_row().make(knobs)->quotas({}, context);
}

TEST(SharesRule, MixesMeasuredAndEqualSharesOfTheEligibleEntries) {
  EXPECT_EQ(quotas(104, "1"), (std::vector<int>{92, 12}));
  EXPECT_EQ(quotas(104, "0.5"), (std::vector<int>{72, 32}));
  EXPECT_EQ(quotas(104, "0"), (std::vector<int>{52, 52}));
}

// 50 of 400 are an eighth: half way from a quarter to a sixteenth, shares 0.7 and 0.3.
TEST(SharesRule, IsBetweenTheTablesNeighboursOnALogScale) {
  EXPECT_EQ(quotas(54, "1"), (std::vector<int>{37, 17}));
}

// 0.95 of 200 are more than 80 % of a head; at 90 % kept, 1.05 x that are 189.
TEST(SharesRule, AHeadsExcessGoesToTheOthers) {
  EXPECT_EQ(quotas(204, "1"), (std::vector<int>{162, 42}));
  EXPECT_EQ(quotas(364, "1"), (std::vector<int>{191, 173}));
  EXPECT_EQ(quotas(404, "1"), (std::vector<int>{202, 202}));
}

// 20 of 400 are 5 %, 21 more.
TEST(SharesRule, ATightBudgetHasAMixOfItsOwn) {
  const std::vector<HeadShares> table{{.kept = 0.5, .row = {0.9F, 0.1F}}};
  EXPECT_EQ(quotas(24, "1", "0", table), (std::vector<int>{12, 12}));
  EXPECT_EQ(quotas(25, "1", "0", table), (std::vector<int>{21, 4}));
}

TEST(SharesRule, WithoutACalibrationSharesAreEqual) {
  EXPECT_EQ(quotas(104, "1", "0", {}), (std::vector<int>{52, 52}));
}

TEST(SharesRule, IsKnownToNeedACalibration) {
  EXPECT_TRUE(needs_of("random+shares").calibration);
  EXPECT_FALSE(needs_of("random+uniform").calibration);
}

}  // namespace

}  // namespace pith::test

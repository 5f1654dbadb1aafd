#include <gtest/gtest.h>

#include "policy/budgets/budgets.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

/// One layer of two KV heads with the given scores.
std::vector<int> quotas(const std::vector<std::vector<float>>& rows, int64_t keep_total,
                        Protection protection = {.sinks = 1, .window = 1},
                        const std::string& floor = "0") {
  const auto synthetic = make_synthetic(
      {.shape = small_shape(1), .lengths = {int(rows[0].size()), int(rows[1].size())}});
  PolicyContext context = synthetic.context(keep_total);
  context.protection = protection;
  const Scores scores{.rows = rows, .notes = {}, .scratch_peak = 0};
  KnobValues knobs;
  knobs.set("floor", floor);
  return global_row().make(knobs)->quotas(scores, context);
}

TEST(GlobalRule, ScoresDecideAcrossHeads) {
  EXPECT_EQ(quotas({{0, 9, 8, 7, 0}, {0, 1, 2, 3, 0}}, 7), (std::vector<int>{5, 2}));
  EXPECT_EQ(quotas({{0, 9, 1, 7, 0}, {0, 8, 2, 3, 0}}, 7), (std::vector<int>{4, 3}));
}

/// Seven of ten entries are 3.5 a head: a floor of all of that leaves no contest but for the odd
/// one.
TEST(GlobalRule, AFloorKeepsAPartOfAnEqualShare) {
  const std::vector<std::vector<float>> rows{{0, 9, 8, 7, 0}, {0, 1, 2, 3, 0}};
  const Protection protection{.sinks = 1, .window = 1};
  EXPECT_EQ(quotas(rows, 7, protection, "0.5"), (std::vector<int>{5, 2}));
  EXPECT_EQ(quotas(rows, 7, protection, "1"), (std::vector<int>{4, 3}));
}

TEST(GlobalRule, ProtectedEntriesDoNotCompete) {
  EXPECT_EQ(quotas({{-50, 1, 2, 3, -50}, {99, -1, -2, -3, 99}}, 6), (std::vector<int>{4, 2}));
}

TEST(GlobalRule, TiesGoToTheNewerPositionThenTheLowerHead) {
  EXPECT_EQ(quotas({{0, 5, 5, 5, 0}, {0, 5, 5, 5, 0}}, 5), (std::vector<int>{3, 2}));
  EXPECT_EQ(quotas({{0, 5, 5, 5, 0}, {0, 5, 5, 5, 0}}, 6), (std::vector<int>{3, 3}));
  EXPECT_EQ(quotas({{0, 5, 5, 0, 0}, {0, 0, 0, 5, 0}}, 6), (std::vector<int>{3, 3}));
}

TEST(GlobalRule, UnprotectedRowsKeepTheirBest) {
  EXPECT_EQ(quotas({{9, 8, 7, 6}, {1, 2, 3, 4}}, 4, {.sinks = 0, .window = 0}),
            (std::vector<int>{3, 1}));
  EXPECT_EQ(quotas({{9, 8, 7, 2}, {1, 2, 3, 4}}, 5, {.sinks = 0, .window = 0}),
            (std::vector<int>{3, 2}));
}

TEST(GlobalRule, AllOrMoreKeepsAll) {
  EXPECT_EQ(quotas({{1, 2, 3}, {4, 5}}, 5), (std::vector<int>{3, 2}));
  EXPECT_EQ(quotas({{1, 2, 3}, {4, 5}}, 500), (std::vector<int>{3, 2}));
}

}  // namespace

}  // namespace pith::test

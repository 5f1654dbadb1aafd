#include "eval/eviction_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "support/plan_checks.h"

namespace pith::test {
namespace {

class EvictionMasks : public testing::Test {
 protected:
  EvictionMasks()
      : synthetic_(make_synthetic({.shape = small_shape(), .lengths = {120, 90, 120, 60}})),
        context_(synthetic_.context(48)),
        scores_(policy_.score(context_)) {}

  std::vector<Plan> draw(int count, uint64_t seed = 1) const {
    const MaskMaker maker{&policy_, &scores_};
    return draw_masks(context_, kKept, {&maker, 1}, count, seed);
  }

  /// Entries that both keep, of all that `a` keeps.
  static double shared(const Plan& a, const Plan& b) {
    size_t both = 0;
    for (size_t row = 0; row < a.rows.size(); ++row) {
      std::vector<int32_t> common;
      std::ranges::set_intersection(a.rows[row].keep, b.rows[row].keep, std::back_inserter(common));
      both += common.size();
    }
    return double(both) / double(a.total());
  }

  static constexpr std::array<int64_t, 3> kKept{200, 100, 48};
  Policy policy_ = Policy::parse("snapkv(window=8)");
  Synthetic synthetic_;
  PolicyContext context_;
  Scores scores_;
};

TEST_F(EvictionMasks, KeepExactlyTheirBudgetAndAllThatIsProtected) {
  const auto masks = draw(60);
  for (size_t m = 0; m < masks.size(); ++m) {
    PolicyContext at = context_;
    at.keep_total = kKept[m % kKept.size()];
    EXPECT_EQ(plan_fault(masks[m], at), "") << m;
  }
}

TEST_F(EvictionMasks, DependOnTheSeedAndTheirNumberOnly) {
  const auto few = draw(9), many = draw(30), other = draw(9, 2);
  for (size_t m = 0; m < few.size(); ++m) EXPECT_EQ(kept(few[m]), kept(many[m])) << m;
  for (size_t m = 0; m < few.size(); ++m) EXPECT_NE(kept(few[m]), kept(other[m])) << m;
  std::set<std::vector<std::vector<int32_t>>> apart;
  for (const Plan& mask : many) apart.insert(kept(mask));
  EXPECT_EQ(apart.size(), many.size());
}

TEST_F(EvictionMasks, HalfOfThemAreRandomWithEqualAndWithSkewedShares) {
  const auto masks = draw(12);
  for (size_t m = 0; m < 3; ++m) {
    std::vector<size_t> equal, skewed;
    for (size_t row : {0U, 2U}) {  // of equal length
      equal.push_back(masks[m].rows[row].keep.size());
      skewed.push_back(masks[m + 3].rows[row].keep.size());
    }
    EXPECT_LE(std::max(equal[0], equal[1]) - std::min(equal[0], equal[1]), 1U);
    if (kKept[m] == 48) continue;  // little more than what is protected
    EXPECT_GT(std::max(skewed[0], skewed[1]) - std::min(skewed[0], skewed[1]), 1U);
  }
}

TEST_F(EvictionMasks, TheOthersAreNearTheSelectionOfTheirMaker) {
  PolicyContext at = context_;
  at.keep_total = kKept[0];
  const Plan made = policy_.select(scores_, at);
  const auto masks = draw(120);
  double random = 0, near = 0;
  for (size_t m = 0; m < masks.size(); m += 12) {
    random += shared(masks[m], made) / 10;
    near += shared(masks[m + 6], made) / 10;
  }
  EXPECT_GT(near, random + 0.1);
}

}  // namespace
}  // namespace pith::test

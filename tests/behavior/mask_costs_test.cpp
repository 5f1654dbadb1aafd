#include "behavior/mask_costs.h"

#include <gtest/gtest.h>

#include "support/behavior_fixture.h"

namespace pith::test {
namespace {

using behavior::Mask;
using behavior::MaskCosts;
using behavior::Objective;
using behavior::RowMatrix;

class MaskCostsTest : public testing::TestWithParam<Objective> {
 protected:
  static constexpr int kMasks = 40;  // more than a block

  /// Mask m keeps the first and the last entry, and others by some pattern of its own.
  static bool keeps(int mask, int group, int entry, int entries) {
    return entry == 0 || entry == entries - 1 ||
           (entry * 7 + group * 3 + mask) % (2 + mask % 5) == 0;
  }

  template <class T>
  std::vector<double> costs(int threads) const {
    MaskCosts<T> costs(kMasks, GetParam(), case_.p);
    const auto groups = features_of<T>(case_);
    for (int g = 0; g < int(groups.size()); ++g) {
      RowMatrix<T> keep(kMasks, case_.entries);
      for (int m = 0; m < kMasks; ++m) {
        for (int i = 0; i < case_.entries; ++i) keep(m, i) = T(keeps(m, g, i, case_.entries));
      }
      costs.add(groups[size_t(g)], keep, threads);
    }
    return costs.costs();
  }

  /// One eviction after the other.
  double evicted_one_by_one(int m) const {
    const auto groups = features_of<double>(case_);
    Mask<double> mask(groups, GetParam(), case_.p);
    for (int g = 0; g < int(groups.size()); ++g) {
      for (int i = 0; i < case_.entries; ++i) {
        if (!keeps(m, g, i, case_.entries)) mask.evict(g, i);
      }
    }
    return mask.cost();
  }

  BehaviorFixture fixture_;
  const reference::BehaviorCase& case_ = fixture_.of(GetParam());
};

TEST_P(MaskCostsTest, AreThoseOfEvictingOneByOne) {
  const auto exact = costs<double>(1), single = costs<float>(1);
  for (int m = 0; m < kMasks; ++m) {
    const double expected = evicted_one_by_one(m);
    EXPECT_NEAR(exact[size_t(m)], expected, 1e-9 * expected) << m;
    EXPECT_NEAR(single[size_t(m)], expected, 1e-4 * expected) << m;
  }
}

TEST_P(MaskCostsTest, AreTheSameForAnyNumberOfThreads) {
  EXPECT_EQ(costs<float>(3), costs<float>(1));
}

INSTANTIATE_TEST_SUITE_P(Objectives, MaskCostsTest,
                         testing::Values(Objective::head, Objective::layer, Objective::total,
                                         Objective::kl),
                         [](const auto& tested) { return fixture_name(tested.param); });

}  // namespace
}  // namespace pith::test

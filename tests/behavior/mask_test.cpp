#include "behavior/mask.h"

#include <gtest/gtest.h>

#include "support/behavior_fixture.h"

namespace pith::test {
namespace {

using behavior::Mask;
using behavior::Objective;

class MaskTest : public testing::TestWithParam<Objective> {
 protected:
  MaskTest() : case_(fixture_.of(GetParam())), name_(fixture_name(GetParam())) {}

  template <class T>
  void expect_single_costs(double tolerance) const {
    const auto features = features_of<T>(case_);
    const Mask<T> mask(features, GetParam(), case_.p);
    typename Mask<T>::Scratch scratch;
    for (const auto& [group, entry] : fixture_.candidates()) {
      const double expected = fixture_.json()["single"][name_][size_t(group / case_.n_head_kv)]
                                             [size_t(group % case_.n_head_kv)][size_t(entry)];
      EXPECT_NEAR(double(mask.rise(group, entry, T(0.05), scratch)), expected, tolerance * expected)
          << group << " " << entry;
    }
  }

  reference::Evicted fixture_mask(size_t index) const {
    reference::Evicted evicted;
    for (const auto& layer : fixture_.json()["masks"][index]) {
      for (const auto& head : layer) {
        for (const int gone : head) evicted.push_back(gone != 0);
      }
    }
    return evicted;
  }

  template <class T>
  Mask<T> evict_all(const std::vector<behavior::GroupFeatures<T>>& features,
                    const reference::Evicted& evicted) const {
    Mask<T> mask(features, GetParam(), case_.p);
    for (size_t i = 0; i < evicted.size(); ++i) {
      if (evicted[i]) mask.evict(int(i) / case_.entries, int(i) % case_.entries);
    }
    return mask;
  }

  BehaviorFixture fixture_;
  const reference::BehaviorCase& case_;
  const char* name_;
};

TEST_P(MaskTest, CostsOfSingleEvictionsAreTheFixtures) { expect_single_costs<double>(1e-5); }

TEST_P(MaskTest, CostsOfSingleEvictionsAreTheFixturesInF32) { expect_single_costs<float>(1e-3); }

TEST_P(MaskTest, CostsOfMasksAreTheFixturesAndTheReferences) {
  const auto features = features_of<double>(case_);
  for (size_t i = 0; i < fixture_.json()["masks"].size(); ++i) {
    const auto evicted = fixture_mask(i);
    const Mask<double> mask = evict_all(features, evicted);
    const double expected = fixture_.json()["mask_cost"][name_][i];
    EXPECT_NEAR(mask.cost(), expected, 1e-5 * expected);
    EXPECT_NEAR(mask.cost(), reference::mask_cost(case_, evicted, GetParam()), 1e-9 * expected);
    EXPECT_NEAR(mask.least_retained(), fixture_.json()["mask_min_retained"][i], 1e-6);
  }
}

TEST_P(MaskTest, CostsOfMasksHoldInF32) {
  const auto features = features_of<float>(case_);
  for (size_t i = 0; i < fixture_.json()["masks"].size(); ++i) {
    const double expected = fixture_.json()["mask_cost"][name_][i];
    EXPECT_NEAR(evict_all(features, fixture_mask(i)).cost(), expected, 1e-4 * expected);
  }
}

TEST_P(MaskTest, ARiseIsTheDifferenceOfCosts) {
  const auto features = features_of<double>(case_);
  auto evicted = fixture_mask(0);
  Mask<double> mask = evict_all(features, evicted);
  Mask<double>::Scratch scratch;
  const auto spare = std::find(evicted.begin() + 2, evicted.end(), false) - evicted.begin();
  const int group = int(spare) / case_.entries, entry = int(spare) % case_.entries;
  const double before = mask.cost();
  const double rise = mask.rise(group, entry, 0, scratch);
  mask.evict(group, entry);
  EXPECT_NEAR(mask.cost(), before + rise, 1e-12);
  evicted[size_t(spare)] = true;
  EXPECT_NEAR(mask.cost(), reference::mask_cost(case_, evicted, GetParam()), 1e-12);
}

/// Taken back in another order than they went.
TEST_P(MaskTest, EvictionsTakenBackLeaveTheCostsBefore) {
  const auto features = features_of<double>(case_);
  auto gone = fixture_mask(0);
  Mask<double> mask = evict_all(features, gone);
  Mask<double>::Scratch scratch;
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) continue;
    const int group = int(i) / case_.entries, entry = int(i) % case_.entries;
    const double before = mask.cost();
    const double fall = mask.fall(group, entry, scratch);
    mask.restore(group, entry);
    gone[i] = false;
    EXPECT_NEAR(mask.cost(), before - fall, 1e-12);
    EXPECT_NEAR(mask.cost(), reference::mask_cost(case_, gone, GetParam()), 1e-12);
  }
  EXPECT_NEAR(mask.least_retained(), 1, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Objectives, MaskTest,
                         testing::Values(Objective::head, Objective::layer, Objective::total,
                                         Objective::kl),
                         [](const auto& tested) { return fixture_name(tested.param); });

}  // namespace
}  // namespace pith::test

#include "policy/wrappers/wrappers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/one_head.h"
#include "support/plan_checks.h"

namespace pith::test {

namespace {

/// One row of scores, first and last entry protected.
class Wrappers : public testing::Test {
 protected:
  Wrappers()
      : synthetic_(one_head({1, 1, 1, 1, 1, 1}, {1, 4, 1, 1, 8, 1})),
        context_(synthetic_.context(4)) {
    context_.protection = {.sinks = 1, .window = 1};
  }

  std::vector<float> rescored(const std::string& spec, const std::vector<float>& row) const {
    const Policy policy = Policy::parse("snapkv+" + spec);
    for (const WrapperRow& wrapper : wrapper_rows()) {
      if (spec.substr(0, spec.find('(')) != wrapper.name) continue;
      KnobValues knobs;
      for (const Knob& knob : wrapper.knobs)
        knobs.set(knob.name, value_in(policy.spec(), knob.name));
      Scores scores{.rows = {row}, .notes = {}, .scratch_peak = 0};
      wrapper.make(knobs)->rescore(scores, context_);
      return scores.rows[0];
    }
    return {};
  }

  /// The last knob of that name in a full spec.
  static std::string value_in(const std::string& spec, const std::string& knob) {
    const size_t at = spec.rfind(knob + "=") + knob.size() + 1;
    return spec.substr(at, spec.find_first_of(",)", at) - at);
  }

  Synthetic synthetic_;
  PolicyContext context_;
};

TEST_F(Wrappers, SmoothAveragesOverTheNeighboursThereAre) {
  EXPECT_EQ(rescored("smooth(kernel=3)", {99, 2, 4, 6, 0, 99}),
            (std::vector<float>{99, 3, 4, 10.0F / 3, 3, 99}));
}

TEST_F(Wrappers, SmoothTakesTheMaximum) {
  EXPECT_EQ(rescored("smooth(kernel=3,pooling=max)", {99, 2, 4, 6, 0, 99}),
            (std::vector<float>{99, 4, 6, 6, 6, 99}));
}

TEST_F(Wrappers, SmoothOverOneEntryChangesNothing) {
  EXPECT_EQ(rescored("smooth(kernel=1)", {9, 2, 4, 6, 0, 9}),
            (std::vector<float>{9, 2, 4, 6, 0, 9}));
}

TEST_F(Wrappers, ChunkGivesEachRunItsMean) {
  EXPECT_EQ(rescored("chunk(size=3)", {99, 2, 4, 6, 5, 99}),
            (std::vector<float>{99, 4, 4, 4, 5, 99}));
}

// Two of the eligible entries 1..4 stay. The score alone takes entry 2; then the values decide,
// which are 4 and 8 long for entries 1 and 4.
TEST_F(Wrappers, CriticalLetsTheValuesDecideTheSecondHalf) {
  Scores scores{.rows = {{0, 0.1F, 0.9F, 0.3F, 0.1F, 0}}, .notes = {}, .scratch_peak = 0};
  const auto keep = [&](const std::string& spec) {
    return Policy::parse(spec).select(scores, context_).rows[0].keep;
  };
  EXPECT_EQ(keep("snapkv"), (std::vector<int32_t>{0, 2, 3, 5}));
  EXPECT_EQ(keep("snapkv+critical"), (std::vector<int32_t>{0, 2, 4, 5}));
  EXPECT_EQ(keep("snapkv+critical(first=0)"), (std::vector<int32_t>{0, 2, 4, 5}));
  EXPECT_EQ(keep("snapkv+critical(first=1)"), (std::vector<int32_t>{0, 2, 3, 5}));
}

TEST_F(Wrappers, InverseWeighsWhatWasDrawnByTheShareKept) {
  const Plan plan = run_policy("random+inverse", context_);
  ASSERT_EQ(plan.rows[0].keep.size(), 4U);
  const float weight = std::log(2.0F);
  EXPECT_EQ(plan.rows[0].log_weight, (std::vector<float>{0, weight, weight, 0}));
}

TEST_F(Wrappers, InverseAddsNothingWhereAllIsKept) {
  context_.keep_total = 6;
  EXPECT_TRUE(run_policy("random+inverse", context_).rows[0].log_weight.empty());
}

/// The sum of the weights is the number of entries, whatever is kept.
TEST_F(Wrappers, InverseKeepsTheMass) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50, 20, 33, 41}});
  const Plan plan = run_policy("random+inverse+global", synthetic.context(60));
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    double mass = 0;
    for (const float w : plan.rows[row].log_weight) mass += std::exp(double(w));
    EXPECT_NEAR(mass, double(synthetic.cache.rows[row].positions.size()), 1e-3);
  }
}

}  // namespace

}  // namespace pith::test

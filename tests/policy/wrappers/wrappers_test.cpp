#include "policy/wrappers/wrappers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "support/expect_error.h"
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
  Synthetic twins_ = one_head({1, 1, 1, 1, 1, 1}, {0, 5, 5, -5, -5, 0});
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

// Of the twins 1 and 2 one stays and stands for both: w minimizes (2 - w)^2 + ridge (1 - w)^2.
TEST_F(Wrappers, WeightsLetATwinAnswerForBoth) {
  PolicyContext context = twins_.context(5);
  context.protection = {.sinks = 1, .window = 3};
  for (const double ridge : {0.0, 0.2, 1.0}) {
    std::ostringstream spec;
    spec << "snapkv+weights(ridge=" << ridge << ")";
    const Plan plan = run_policy(spec.str(), context);
    EXPECT_EQ(plan.rows[0].keep, (std::vector<int32_t>{0, 2, 3, 4, 5}));
    ASSERT_EQ(plan.rows[0].log_weight.size(), 5U);
    // The representative is rounded to bytes, the twin that it stands for is not.
    EXPECT_NEAR(plan.rows[0].log_weight[1], std::log((2 + ridge) / (1 + ridge)), 2e-3);
    for (const size_t guarded : {0U, 2U, 3U, 4U}) EXPECT_EQ(plan.rows[0].log_weight[guarded], 0);
  }
}

// Entries 1 and 2 answer alike, and so do 3 and 4. All keys are as short, so that the score takes
// both of the newer kind, and the pursuit one of each.
TEST_F(Wrappers, OmpTakesWhatStandsForTheRest) {
  PolicyContext context = twins_.context(4);
  context.protection = {.sinks = 1, .window = 1};
  EXPECT_EQ(run_policy("knorm", context).rows[0].keep, (std::vector<int32_t>{0, 3, 4, 5}));
  EXPECT_EQ(run_policy("knorm+omp(forced=0)", context).rows[0].keep,
            (std::vector<int32_t>{0, 1, 3, 5}));
  EXPECT_EQ(run_policy("knorm+omp(forced=0.5)", context).rows[0].keep,
            (std::vector<int32_t>{0, 1, 4, 5}));
  EXPECT_EQ(run_policy("knorm+omp(forced=1)", context).rows[0].keep,
            (std::vector<int32_t>{0, 3, 4, 5}));
}

/// With everything forced the pursuit has nothing to choose: the weights alone remain.
TEST_F(Wrappers, OmpOfForcedEntriesIsWeights) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50, 20, 33, 41}});
  const PolicyContext context = synthetic.context(60);
  const Plan forced = run_policy("snapkv+omp(forced=1)", context);
  const Plan weighted = run_policy("snapkv+weights", context);
  for (size_t row = 0; row < forced.rows.size(); ++row) {
    EXPECT_EQ(forced.rows[row].keep, weighted.rows[row].keep);
    EXPECT_EQ(forced.rows[row].log_weight, weighted.rows[row].log_weight);
  }
}

// Entries 3 and 4 of 1..4 stay; 1 and 2 have keys nearer to that of 3.
TEST_F(Wrappers, MergeFoldsMassAndValueIntoTheNearest) {
  const Synthetic synthetic = one_head({1, 1, 2, 8, 10, 1}, {1, 4, 2, 8, 6, 1});
  PolicyContext context = synthetic.context(4);
  context.protection = {.sinks = 1, .window = 1};
  const RowPlan row = run_policy("tova+merge", context).rows[0];
  EXPECT_EQ(row.keep, (std::vector<int32_t>{0, 3, 4, 5}));
  ASSERT_EQ(row.log_weight.size(), 4U);
  EXPECT_NEAR(row.log_weight[1], std::log(11.0 / 8), 1e-5);
  for (const size_t same : {0U, 2U, 3U}) EXPECT_NEAR(row.log_weight[same], 0, 1e-5);
  ASSERT_EQ(row.values.size(), 8U);
  EXPECT_NEAR(row.values[2], (1 * 4 + 2 * 2 + 8 * 8) / 11.0, 1e-5);
  EXPECT_NEAR(row.values[0], 1, 1e-5);
  EXPECT_NEAR(row.values[4], 6, 1e-5);
}

TEST_F(Wrappers, MergeOfWhatNobodyLooksAtLeavesItAsItIs) {
  const Synthetic synthetic = one_head({1, 0, 0, 0, 0, 1}, {1, 4, 2, 8, 6, 1});
  PolicyContext context = synthetic.context(4);
  context.protection = {.sinks = 1, .window = 1};
  const RowPlan row = run_policy("tova+merge", context).rows[0];
  for (const float weight : row.log_weight) EXPECT_EQ(weight, 0);
  for (size_t k = 0; k < row.keep.size(); ++k) {
    EXPECT_EQ(row.values[2 * k], (std::vector<float>{1, 4, 2, 8, 6, 1})[size_t(row.keep[k])]);
  }
}

TEST_F(Wrappers, TwoPartsThatGiveWeightsAreRefused) {
  expect_error(ErrorCode::usage, "two parts give weights",
               [] { Policy::parse("random+inverse+weights"); });
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

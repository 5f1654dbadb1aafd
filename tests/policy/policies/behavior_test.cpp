#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "behavior/greedy.h"
#include "behavior/logit_metric.h"
#include "policy/attention_probs.h"
#include "policy/policies/behavior_inputs.h"
#include "policy/policy.h"
#include "reference/one_layer.hpp"
#include "support/expect_error.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

using behavior::Mask;
using behavior::Objective;

/// One head of size 2 whose last position attends to the entries by `alpha` and reads (values[i],
/// 0) of each. W_O, W_U and the norm's gain are the identity and the residual is (1, 1), so that
/// both tokens are as likely and the cost of a shift (a, b) is (a - b)^2 / 8.
Synthetic one_head(const std::vector<float>& alpha, const std::vector<float>& values) {
  Synthetic out;
  const ModelShape shape{
      .n_layer = 1, .n_head = 1, .n_head_kv = 1, .head_dim = 2, .n_embd = 2, .n_vocab = 2};
  out.cache.model_shape = out.weights.model_shape = shape;
  SyntheticCache::Row row;
  for (size_t i = 0; i < alpha.size(); ++i) {
    row.positions.push_back(int32_t(i));
    row.keys.insert(row.keys.end(), {std::log(alpha[i]), 0});
    row.values.insert(row.values.end(), {values[i], 0});
  }
  out.cache.rows = {row};
  out.cache.seen = int32_t(alpha.size());
  out.weights.w_o = {{1, 0, 0, 1}};
  out.weights.w_u = {1, 0, 0, 1};
  out.weights.norm = {1, 1};
  out.weights.eps = 0;
  out.seen.positions = {out.cache.seen - 1};
  out.seen.query = {{1, 0}};
  out.seen.residual = {1, 1};
  out.seen.logits = {1, 1};
  return out;
}

PolicyContext with_ends_protected(const Synthetic& synthetic, int64_t keep_total) {
  PolicyContext context = synthetic.context(keep_total);
  context.protection = {.sinks = 1, .window = 1};
  return context;
}

// The output is 3/4. Without entry 2 it is 2/3, without 2 and 3 it is 4/5: the second eviction
// lowers the cost. With the ends alone it is 0.
TEST(Behavior, ScoresAreTheRunningMaximumOfTheGreedysRises) {
  const Synthetic synthetic = one_head({0.25F, 0.125F, 0.25F, 0.125F, 0.25F}, {0, 4, 1, 0, 0});
  for (const std::string objective : {"head", "layer", "total"}) {
    const auto context = with_ends_protected(synthetic, 2);
    const auto scores = Policy::parse("behavior(objective=" + objective + ")").score(context);
    const auto& row = scores.rows[0];
    const double first = 1.0 / 144 / 8;
    EXPECT_NEAR(row[2], first, 1e-6 * first);
    EXPECT_EQ(row[3], std::nextafter(row[2], 1.0F));
    EXPECT_NEAR(row[1], 0.5625 / 8 - 0.0025 / 8, 1e-6);
    EXPECT_TRUE(scores.notes.empty());
  }
}

TEST(Behavior, WithLogSumExpCostsAreThoseOfTheDefinition) {
  const Synthetic synthetic = one_head({0.25F, 0.125F, 0.25F, 0.125F, 0.25F}, {0, 4, 1, 0, 0});
  const auto scores =
      Policy::parse("behavior(objective=kl)").score(with_ends_protected(synthetic, 2));
  // Logits move by +-1/24 where the output moves from 3/4 to 2/3.
  EXPECT_NEAR(scores.rows[0][2], std::log(std::cosh(1.0 / 24)), 1e-8);
}

TEST(Behavior, LowersEpsToMeetTheBudgetAndSaysSo) {
  const Synthetic synthetic = one_head({0.02F, 0.32F, 0.32F, 0.32F, 0.02F}, {0, 1, 3, 2, 0});
  const Policy policy = Policy::parse("behavior");
  EXPECT_TRUE(policy.score(with_ends_protected(synthetic, 3)).notes.empty());
  const auto scores = policy.score(with_ends_protected(synthetic, 2));
  ASSERT_EQ(scores.notes.size(), 1U);
  EXPECT_EQ(scores.notes[0], "behavior: eps lowered from 0.05 to 0.025 to meet the budget");
}

TEST(Behavior, RefusesWhatDoesNotFitTheScratch) {
  const Synthetic synthetic = make_synthetic({.shape = small_shape(), .lengths = {300}});
  PolicyContext context = synthetic.context(200);
  context.scratch_bytes = size_t{2} << 20;
  Policy::parse("behavior").score(context);
  expect_error(ErrorCode::memory, "bytes of scratch",
               [&] { Policy::parse("behavior(objective=total)").score(context); });
  context.scratch_bytes = 1000;
  expect_error(ErrorCode::memory, "bytes of scratch",
               [&] { Policy::parse("behavior").score(context); });
}

TEST(Behavior, NeedsAnObservation) {
  Synthetic synthetic = make_synthetic({.shape = small_shape(), .lengths = {40}});
  synthetic.seen.positions.clear();
  expect_error(ErrorCode::usage, "observed positions",
               [&] { Policy::parse("behavior").score(synthetic.context(20)); });
}

/// One layer and one position, what follows attention as given, and the true KL of an eviction.
class BehaviorOneLayer : public testing::Test {
 protected:
  BehaviorOneLayer()
      : synthetic_(make_synthetic(
            {.shape = small_shape(1, 1), .lengths = {12}, .observed = 1, .peak = 9})) {}

  /// Of evicting the entries of least attention against that by `behavior` of the whole vocabulary.
  double ratio_to_truth() {
    const reference::OneLayer model = reference_model();
    const std::vector<bool> nothing(12, false);
    const auto z = model.logits(nothing), state = model.state(nothing);
    synthetic_.seen.logits.assign(z.begin(), z.end());
    synthetic_.seen.residual.assign(state.begin(), state.end());
    Plan mask;
    mask.rows.emplace_back();
    std::vector<bool> evicted = nothing;
    for (int i = 0; i < 12; ++i) {
      double most = 0;
      for (int h = 0; h < 3; ++h) most = std::max(most, model.alpha[size_t(3 * i + h)]);
      evicted[size_t(i)] = most < 1e-3;
      if (most >= 1e-3) mask.rows[0].keep.push_back(i);
    }
    auto shift = model.logits(evicted);
    for (size_t j = 0; j < z.size(); ++j) shift[j] -= z[j];
    std::vector<int32_t> all(z.size());
    std::iota(all.begin(), all.end(), 0);
    const PolicyContext context = synthetic_.context(6);
    const Policy policy = Policy::parse("behavior(positions=1,objective=kl,topk=100000)");
    const double estimate = policy.mask_costs({&mask, 1}, {}, context)[0];
    return estimate / behavior::kl_of_shift(behavior::probabilities<double>(z, all), shift);
  }

  reference::OneLayer reference_model() const {
    const auto doubles = [](const auto& from) {
      return reference::Doubles(from.begin(), from.end());
    };
    const SyntheticWeights& w = synthetic_.weights;
    const ModelShape& shape = w.model_shape;
    const auto kind = w.centred ? behavior::NormKind::layer : behavior::NormKind::rms;
    reference::OneLayer out{.n_head = shape.n_head,
                            .head_dim = shape.head_dim,
                            .n_embd = shape.n_embd,
                            .n_vocab = shape.n_vocab,
                            .entries = 12};
    out.alpha = doubles(attention_probs(synthetic_.context(6), 0, 0, 1).alpha);
    out.values = doubles(synthetic_.cache.rows[0].values);
    out.w_o = doubles(w.w_o[0]);
    out.w_u = doubles(w.w_u);
    out.before = doubles(synthetic_.seen.residual);
    if (!w.norm.empty()) out.final = {kind, doubles(w.norm), double(w.eps)};
    if (!w.post_norm.empty()) out.post_attention = {kind, doubles(w.post_norm), double(w.eps)};
    out.scale = double(w.logits.scale);
    out.softcap = double(w.logits.softcap);
    return out;
  }

  Synthetic synthetic_;
};

TEST_F(BehaviorOneLayer, EstimatesTheTrueKlOfASmallEviction) {
  EXPECT_NEAR(ratio_to_truth(), 1, 0.02);
}

TEST_F(BehaviorOneLayer, ThroughLayerNorms) {
  synthetic_.weights.centred = true;
  EXPECT_NEAR(ratio_to_truth(), 1, 0.02);
}

TEST_F(BehaviorOneLayer, WithoutAFinalNorm) {
  synthetic_.weights.norm.clear();
  EXPECT_NEAR(ratio_to_truth(), 1, 0.02);
}

TEST_F(BehaviorOneLayer, ThroughANormBehindAttentionAndCappedLogits) {
  synthetic_.weights.post_norm.assign(size_t(synthetic_.weights.model_shape.n_embd), 0.7F);
  synthetic_.weights.logits = {.scale = 1.5F, .softcap = 2};
  EXPECT_NEAR(ratio_to_truth(), 1, 0.02);
}

/// A cache with everything that its greedy reads, and the cost of a plan.
class BehaviorPlan : public testing::TestWithParam<int> {
 protected:
  explicit BehaviorPlan(Objective objective = Objective::head)
      : synthetic_(make_synthetic({.shape = small_shape(), .lengths = {80}, .peak = 3})),
        context_(synthetic_.context(4 * GetParam())),
        inputs_(context_, objective, 32, 50, 8),
        features_(4) {
    for (int row = 0; row < 4; ++row)
      inputs_.make_features(row / 2, row % 2, features_[size_t(row)]);
    const auto [sinks, window, prompt] = context_.protection;
    for (int row = 0; row < 4; ++row) {
      for (int i = sinks; i < 80 - window; ++i) candidates_.push_back({row, i});
    }
  }

  Plan plan(const std::string& spec) const {
    const Policy policy = Policy::parse(spec);
    return policy.select(policy.score(context_), context_);
  }

  static bool keeps(const Plan& plan, const behavior::Candidate& entry) {
    const auto& keep = plan.rows[size_t(entry.group)].keep;
    return std::binary_search(keep.begin(), keep.end(), entry.entry);
  }

  Synthetic synthetic_;
  PolicyContext context_;
  BehaviorInputs inputs_;
  std::vector<behavior::GroupFeatures<float>> features_;
  std::vector<behavior::Candidate> candidates_;
};

TEST_P(BehaviorPlan, MergedPathsEndNearTheGlobalGreedy) {
  const Plan merged = plan("behavior(positions=32,topk=50,rank=8)");
  Mask<float> mask(features_, Objective::head), exact(features_, Objective::head);
  for (const auto& entry : candidates_) {
    if (!keeps(merged, entry)) mask.evict(entry.group, entry.entry);
  }
  behavior::evict_exactly(exact, candidates_, {.evictions = 4 * (80 - GetParam())});
  EXPECT_LT(mask.cost(), 1.05 * exact.cost());
}

TEST_P(BehaviorPlan, RatesAMaskByItsCost) {
  const Policy policy = Policy::parse("behavior(positions=32,topk=50,rank=8)");
  const Scores scores = policy.score(context_);
  const std::vector<Plan> masks{plan("knorm"), plan("streaming")};
  const auto costs = policy.mask_costs(masks, scores, context_);
  for (size_t m = 0; m < masks.size(); ++m) {
    Mask<float> mask(features_, Objective::head);
    for (const auto& entry : candidates_) {
      if (!keeps(masks[m], entry)) mask.evict(entry.group, entry.entry);
    }
    EXPECT_NEAR(costs[m], mask.cost(), 1e-3 * mask.cost());
  }
}

INSTANTIATE_TEST_SUITE_P(Kept, BehaviorPlan, testing::Values(40, 20),
                         testing::PrintToStringParamName());

class BehaviorTotalPlan : public BehaviorPlan {
 protected:
  BehaviorTotalPlan() : BehaviorPlan(Objective::total) {}
};

TEST_P(BehaviorTotalPlan, IsTheSetThatTheExchangeEndsWith) {
  const Plan chosen = plan("behavior(positions=32,topk=50,rank=8,objective=total,pool=1000)");
  Mask<float> mask(features_, Objective::total);
  const int evictions = 4 * (80 - GetParam());
  auto steps = evict_with_recheck(mask, candidates_, {.evictions = evictions});
  exchange(mask, candidates_, steps, {});
  for (const auto& step : steps) {
    EXPECT_FALSE(keeps(chosen, step.evicted));
  }
  EXPECT_EQ(chosen.total(), 4 * GetParam());
}

INSTANTIATE_TEST_SUITE_P(Kept, BehaviorTotalPlan, testing::Values(40, 20),
                         testing::PrintToStringParamName());

}  // namespace

}  // namespace pith::test

#include "eval/eviction_masks.h"

#include <cmath>
#include <cstdlib>
#include <random>

#include "policy/budgets/budgets.h"
#include "policy/budgets/contest.h"
#include "policy/protection.h"

namespace pith {
namespace {

constexpr double kMostNoise = 2;

class Draw {
 public:
  Draw(const PolicyContext& context, uint64_t seed, int mask)
      : context_(context), random_(mixed(seed, mask)) {}

  Plan at_random(bool skewed) {
    const RowLimits limits = row_limits(context_);
    std::vector<int> quotas = uniform_quotas(limits, context_.keep_total);
    if (skewed) {
      std::vector<double> weights(limits.most.size());
      for (double& w : weights) w = std::exp(normal_(random_));
      quotas = proportional_quotas(weights, limits.least, limits.most, context_.keep_total);
    }
    Scores scores;
    for (const int length : limits.most) {
      auto& row = scores.rows.emplace_back(size_t(length));
      for (float& score : row) score = float(uniform_(random_));
    }
    return keep_best(scores, quotas, context_);
  }

  Plan made_by(const MaskMaker& maker) {
    const double sigma = kMostNoise * uniform_(random_);
    Scores scores = *maker.scores;
    for (auto& row : scores.rows) {
      for (float& score : row) score *= float(std::exp(sigma * normal_(random_)));
    }
    Plan plan = maker.policy->select(scores, context_);
    for (RowPlan& row : plan.rows) row = {.keep = std::move(row.keep), .log_weight = {}};
    return plan;
  }

 private:
  static std::mt19937_64 mixed(uint64_t seed, int mask) {
    std::seed_seq words{seed & 0xFFFFFFFFU, seed >> 32U, uint64_t(mask)};
    return std::mt19937_64(words);
  }

  const PolicyContext& context_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

}  // namespace

std::vector<Plan> draw_masks(const PolicyContext& context, std::span<const int64_t> kept,
                             std::span<const MaskMaker> makers, int count, uint64_t seed) {
  std::vector<Plan> masks;
  PolicyContext at = context;
  for (int m = 0; m < count; ++m) {
    const auto [round, share] = std::div(m, int(kept.size()));
    at.keep_total = kept[size_t(share)];
    Draw draw(at, seed, m);
    const bool random = round % 4 < 2 || makers.empty();
    const int turn = round / 4 * 2 + round % 4 - 2;  // of the makers
    masks.push_back(random ? draw.at_random(round % 2 == 1)
                           : draw.made_by(makers[size_t(turn) % makers.size()]));
  }
  return masks;
}

}  // namespace pith

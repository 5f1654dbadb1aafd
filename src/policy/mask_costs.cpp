#include <algorithm>
#include <cmath>

#include "policy/policy.h"
#include "policy/protection.h"

namespace pith {

namespace {

/// Lowest and highest finite score of the entries that may be evicted; {0, 0} where there is none.
std::pair<float, float> finite_range(const Scores& scores, const PolicyContext& context) {
  float low = INFINITY, high = -INFINITY;
  for (size_t row = 0; row < scores.rows.size(); ++row) {
    const Eligible eligible = eligible_entries(context, int(row));
    for (int i = eligible.first; i < eligible.last; ++i) {
      const float score = scores.rows[row][size_t(i)];
      if (!std::isfinite(score)) continue;
      low = std::min(low, score);
      high = std::max(high, score);
    }
  }
  return low <= high ? std::pair(low, high) : std::pair(0.0F, 0.0F);
}

}  // namespace

std::vector<double> Scorer::mask_costs(std::span<const Plan> masks, const Scores& scores,
                                       const PolicyContext& context) const {
  // An infinite score says that the entry must stay: it counts as much as the highest finite one.
  const auto [low, high] = finite_range(scores, context);
  const double zero = std::min(0.0, double(low));
  std::vector<double> costs(masks.size(), 0.0);
  for (size_t row = 0; row < scores.rows.size(); ++row) {
    const auto& worth = scores.rows[row];
    const Eligible eligible = eligible_entries(context, int(row));
    for (size_t m = 0; m < masks.size(); ++m) {
      const auto& keep = masks[m].rows[row].keep;
      auto next = std::ranges::lower_bound(keep, eligible.first);
      for (int i = eligible.first; i < eligible.last; ++i) {
        if (next != keep.end() && *next == i) {
          ++next;
        } else {
          costs[m] += double(std::clamp(worth[size_t(i)], low, high)) - zero;
        }
      }
    }
  }
  return costs;
}

}  // namespace pith

#include "calibration/head_shares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "policy/budgets/budgets.h"
#include "policy/knobs.h"

namespace pith {

namespace {

constexpr std::array kKeptShares{0.5, 0.25, 0.1, 0.05, 0.025};

}  // namespace

std::span<const double> calibrated_shares() { return kKeptShares; }

std::vector<HeadShares> head_shares(const Scores& scores, const PolicyContext& context) {
  const RowLimits limits = row_limits(context);
  const int64_t eligible = limits.most_total - limits.least_total;
  const BudgetRow row = global_row();
  const auto contest = row.make(resolve_knobs(row.knobs, {.name = row.name, .arguments = {}}));
  std::vector<HeadShares> out;
  for (const double kept : kKeptShares) {
    PolicyContext at = context;
    const int64_t contested = std::llround(kept * double(eligible));
    at.keep_total = limits.least_total + contested;
    const auto quotas = contest->quotas(scores, at);
    HeadShares& shares = out.emplace_back(HeadShares{.kept = kept, .row = {}});
    for (size_t r = 0; r < quotas.size(); ++r) {
      shares.row.push_back(contested == 0 ? 1 / float(quotas.size())
                                          : float(quotas[r] - limits.least[r]) / float(contested));
    }
  }
  return out;
}

std::vector<HeadShares> mean_shares(std::span<const std::vector<HeadShares>> texts) {
  std::vector<HeadShares> out = texts.front();
  for (size_t s = 0; s < out.size(); ++s) {
    for (size_t r = 0; r < out[s].row.size(); ++r) {
      const float sum =
          std::accumulate(texts.begin(), texts.end(), 0.0F,
                          [&](float x, const auto& text) { return x + text[s].row[r]; });
      out[s].row[r] = sum / float(texts.size());
    }
  }
  return out;
}

}  // namespace pith

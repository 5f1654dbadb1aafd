#include <algorithm>
#include <tuple>

#include "policy/budgets/budgets.h"
#include "policy/protection.h"

namespace pith {

namespace {

struct Candidate {
  float score;
  int32_t position;
  int row;
};

/// Higher score first, then the newer position, then the lower layer and head.
bool goes_first(const Candidate& a, const Candidate& b) {
  return std::tie(b.score, b.position, a.row) < std::tie(a.score, a.position, b.row);
}

/// The entries of a row that compete: the eligible ones, less its best where nothing of the row is
/// protected, because that one stays anyway.
void add_candidates(const Scores& scores, const PolicyContext& context, int row, int least,
                    std::vector<Candidate>& out) {
  const ModelShape& shape = context.cache.shape();
  const auto positions = context.cache.positions(row / shape.n_head_kv, row % shape.n_head_kv);
  const auto eligible = eligible_entries(int(positions.size()), context.protection);
  const auto first = ptrdiff_t(out.size());
  for (int i = eligible.first; i < eligible.last; ++i) {
    out.push_back({scores.rows[size_t(row)][size_t(i)], positions[size_t(i)], row});
  }
  if (int(positions.size()) - eligible.count() < least) {
    std::iter_swap(std::min_element(out.begin() + first, out.end(), goes_first), out.end() - 1);
    out.pop_back();
  }
}

class GlobalRule : public BudgetRule {
 public:
  std::vector<int> quotas(const Scores& scores, const PolicyContext& context) const override {
    const RowLimits limits = row_limits(context);
    const int64_t contested = kept_entries(limits, context.keep_total) - limits.least_total;
    std::vector<Candidate> candidates;
    candidates.reserve(size_t(limits.most_total - limits.least_total));
    for (int row = 0; row < context.cache.shape().n_rows(); ++row) {
      add_candidates(scores, context, row, limits.least[size_t(row)], candidates);
    }
    const auto winners = candidates.begin() + contested;
    std::nth_element(candidates.begin(), winners, candidates.end(), goes_first);
    std::vector<int> quotas = limits.least;
    std::for_each(candidates.begin(), winners, [&](const auto& won) { ++quotas[size_t(won.row)]; });
    return quotas;
  }
};

}  // namespace

BudgetRow global_row() {
  return {.name = "global",
          .summary = "one contest over all layers and KV heads: scores decide how many each keeps",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<BudgetRule> {
            return std::make_unique<GlobalRule>();
          }};
}

}  // namespace pith

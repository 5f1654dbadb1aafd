#include <numeric>

#include "policy/budgets/budgets.h"
#include "policy/budgets/contest.h"
#include "policy/protection.h"

namespace pith {

namespace {

class GlobalRule : public BudgetRule {
 public:
  std::vector<int> quotas(const Scores& scores, const PolicyContext& context) const override {
    const RowLimits limits = row_limits(context);
    std::vector<int> rows(limits.least.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<int> quotas(rows.size(), 0);
    contest(scores, context, rows, limits.least, kept_entries(limits, context.keep_total), quotas);
    return quotas;
  }
};

}  // namespace

BudgetRow global_row() {
  return {.name = "global",
          .summary = "one contest over all layers and KV heads: scores decide how many each keeps",
          .paper = "",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<BudgetRule> {
            return std::make_unique<GlobalRule>();
          }};
}

}  // namespace pith

#include <numeric>

#include "policy/budgets/budgets.h"
#include "policy/budgets/contest.h"
#include "policy/protection.h"

namespace pith {

namespace {

class GlobalRule : public BudgetRule {
 public:
  explicit GlobalRule(double floor) : floor_(floor) {}

  std::vector<int> quotas(const Scores& scores, const PolicyContext& context) const override {
    const RowLimits limits = row_limits(context);
    std::vector<int> rows(limits.least.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<int> quotas(rows.size(), 0);
    const int64_t total = kept_entries(limits, context.keep_total);
    const auto least = floors(limits, uniform_quotas(limits, total), floor_);
    contest(scores, context, rows, least, total, quotas);
    return quotas;
  }

 private:
  double floor_;
};

}  // namespace

BudgetRow global_row() {
  return {.name = "global",
          .summary = "one contest over all layers and KV heads: scores decide how many each keeps",
          .paper = "",
          .knobs = {floor_knob("0")},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<BudgetRule> {
            return std::make_unique<GlobalRule>(knobs.number("floor"));
          }};
}

}  // namespace pith

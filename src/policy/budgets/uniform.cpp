#include <algorithm>

#include "policy/budgets/budgets.h"
#include "policy/protection.h"

namespace pith {

namespace {

/// What a row takes of an equal `share`.
int taken(const RowLimits& limits, size_t row, int share) {
  return std::clamp(share, limits.least[row], limits.most[row]);
}

int64_t total_taken(const RowLimits& limits, int share) {
  int64_t total = 0;
  for (size_t row = 0; row < limits.most.size(); ++row) total += taken(limits, row, share);
  return total;
}

/// The largest share with which the rows together take at most `total`.
int largest_share(const RowLimits& limits, int64_t total) {
  int low = 0;
  int high = *std::max_element(limits.most.begin(), limits.most.end());
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (total_taken(limits, middle) <= total) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

class UniformRule : public BudgetRule {
 public:
  std::vector<int> quotas(const Scores&, const PolicyContext& context) const override {
    const RowLimits limits = row_limits(context);
    return uniform_quotas(limits, kept_entries(limits, context.keep_total));
  }
};

}  // namespace

std::vector<int> uniform_quotas(const RowLimits& limits, int64_t total) {
  const int share = largest_share(limits, total);
  int64_t left = total - total_taken(limits, share);
  std::vector<int> quotas;
  for (size_t row = 0; row < limits.most.size(); ++row) {
    // Remainders of equal shares are equal: one more entry each for the first rows with room.
    const bool one_more = left > 0 && taken(limits, row, share + 1) > taken(limits, row, share);
    quotas.push_back(taken(limits, row, share) + (one_more ? 1 : 0));
    left -= one_more ? 1 : 0;
  }
  return quotas;
}

BudgetRow uniform_row() {
  return {.name = "uniform",
          .summary =
              "the same number of entries for every layer and KV head; what a short one "
              "leaves goes to the others",
          .paper = "",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<BudgetRule> {
            return std::make_unique<UniformRule>();
          }};
}

}  // namespace pith

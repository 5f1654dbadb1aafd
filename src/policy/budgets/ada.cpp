#include <algorithm>
#include <numeric>

#include "policy/budgets/budgets.h"
#include "policy/budgets/contest.h"

namespace pith {

namespace {

class AdaRule : public BudgetRule {
 public:
  explicit AdaRule(double floor) : floor_(floor) {}

  std::vector<int> quotas(const Scores& scores, const PolicyContext& context) const override {
    const ModelShape& shape = context.cache.shape();
    const RowLimits limits = row_limits(context);
    const auto equal = uniform_quotas(limits, kept_entries(limits, context.keep_total));
    const auto least = floors(limits, equal, floor_);
    std::vector<int> quotas(equal.size(), 0), heads(size_t(shape.n_head_kv));
    for (int layer = 0; layer < shape.n_layer; ++layer) {
      std::iota(heads.begin(), heads.end(), shape.row(layer, 0));
      const auto first = equal.begin() + shape.row(layer, 0);
      const auto total = std::accumulate(first, first + shape.n_head_kv, int64_t{0});
      contest(scores, context, heads, least, total, quotas);
    }
    return quotas;
  }

 private:
  double floor_;
};

}  // namespace

BudgetRow ada_row() {
  return {.name = "ada",
          .summary = "layers get equal shares, and the KV heads of a layer compete for its share",
          .paper =
              "Feng et al., Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget "
              "Allocation, arXiv 2407.11550",
          .knobs = {floor_knob("0.2")},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<BudgetRule> {
            return std::make_unique<AdaRule>(knobs.number("floor"));
          }};
}

}  // namespace pith

#include <algorithm>
#include <functional>

#include "policy/budgets/budgets.h"
#include "policy/budgets/contest.h"

namespace pith {

namespace {

/// Kept entries of the first and the last layer, protected ones apart, on average `mean` each.
struct Slope {
  double first, last;
};

Slope slope_of(double mean, double beta, double longest) {
  Slope slope{.first = 2 * mean - mean / beta, .last = mean / beta};
  if (slope.first > longest) slope = {.first = longest, .last = 2 * mean - longest};
  return slope;
}

class PyramidRule : public BudgetRule {
 public:
  explicit PyramidRule(double beta) : beta_(beta) {}

  std::vector<int> quotas(const Scores&, const PolicyContext& context) const override {
    const ModelShape& shape = context.cache.shape();
    const RowLimits limits = row_limits(context);
    const int64_t total = kept_entries(limits, context.keep_total);
    const double rows = shape.n_rows();
    const double mean = double(total - limits.least_total) / rows;
    const double longest = double(limits.most_total - limits.least_total) / rows;
    const Slope slope = slope_of(mean, beta_, longest);
    std::vector<double> weights;
    for (int row = 0; row < shape.n_rows(); ++row) {
      const int layer = row / shape.n_head_kv;
      const double depth = shape.n_layer == 1 ? 0.5 : double(layer) / (shape.n_layer - 1);
      weights.push_back(slope.first + depth * (slope.last - slope.first));
    }
    std::vector<int> room(limits.most.size());
    std::ranges::transform(limits.most, limits.least, room.begin(), std::minus<>());
    return quotas_above_least(weights, limits, room, total);
  }

 private:
  double beta_;
};

}  // namespace

BudgetRow pyramid_row() {
  return {.name = "pyramid",
          .summary =
              "fewer entries the deeper the layer, along a straight line; the same for the "
              "KV heads of a layer",
          .paper =
              "Cai et al., PyramidKV: Dynamic KV Cache Compression based on Pyramidal "
              "Information Funneling, arXiv 2406.02069",
          .knobs = {{.name = "beta",
                     .value = "20",
                     .min = 1,
                     .max = 1000,
                     .choices = {},
                     .help = "the last layer keeps 1/beta of the mean, protected entries apart"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<BudgetRule> {
            return std::make_unique<PyramidRule>(knobs.number("beta"));
          }};
}

}  // namespace pith

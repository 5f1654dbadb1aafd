#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "policy/protection.h"
#include "policy/score_rows.h"
#include "policy/value_norms.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class CriticalWrapper : public Wrapper {
 public:
  CriticalWrapper(double first, double eps) : first_(first), eps_(eps) {}

  void rerank(Scores& scores, std::span<const int> quotas,
              const PolicyContext& context) const override {
    const auto bytes = [&](int layer, int head_kv) {
      return projected_value_norm_bytes(context, layer, head_kv);
    };
    const size_t used = each_row(context, bytes, [&](int layer, int head_kv) {
      const auto row = size_t(context.cache.shape().row(layer, head_kv));
      rerank_row(scores.rows[row], projected_value_norms(context, layer, head_kv), quotas[row],
                 eligible_entries(context, int(row)));
    });
    scores.scratch_peak = std::max(scores.scratch_peak, used);
  }

 private:
  /// The first part of the quota goes by score alone and gets ahead of all others.
  void rerank_row(std::vector<float>& row, const std::vector<float>& norms, int quota,
                  const Eligible& eligible) const {
    const int contested = quota - (int(row.size()) - eligible.count());
    const int safe = std::clamp(int(first_ * contested), 0, eligible.count());
    std::vector<int> order(size_t(eligible.count()));
    std::iota(order.begin(), order.end(), eligible.first);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return row[size_t(a)] != row[size_t(b)] ? row[size_t(a)] > row[size_t(b)] : a > b;
    });
    for (int place = 0; place < int(order.size()); ++place) {
      const auto i = size_t(order[size_t(place)]);
      row[i] = place < safe ? std::numeric_limits<float>::infinity()
                            : float((double(row[i]) + eps_) * double(norms[i]));
    }
  }

  double first_, eps_;
};

}  // namespace

WrapperRow critical_row() {
  return {.name = "critical",
          .summary =
              "half of what a head keeps goes by the score, the rest by the score times the "
              "length of the value after the output projection",
          .paper =
              "Feng et al., Identify Critical KV Cache in LLM Inference from an Output "
              "Perturbation Perspective, arXiv 2502.03805",
          .formula =
              "first the `first` share of the quota by s; then by (s + eps) ||W_O v||_1, mean "
              "over the group",
          .differences = "",
          .knobs = {{.name = "first",
                     .value = "0.5",
                     .min = 0,
                     .max = 1,
                     .choices = {},
                     .help = "part of the contested entries that the score alone decides"},
                    {.name = "eps",
                     .value = "1e-04",
                     .min = 0,
                     .max = 1,
                     .choices = {},
                     .help = "added to the score before the product"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
            return std::make_unique<CriticalWrapper>(knobs.number("first"), knobs.number("eps"));
          },
          .refuses = [](const ScoreRow& score) -> std::string {
            return score.attention ? ""
                                   : "its product is meant for attention, which is never negative";
          }};
}

}  // namespace pith

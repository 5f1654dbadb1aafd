#include <algorithm>
#include <numeric>

#include "policy/score_rows.h"
#include "policy/wrappers/weighting.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class WeightsWrapper : public Wrapper {
 public:
  explicit WeightsWrapper(const KnobValues& knobs) : weighting_(knobs) {}

  Needs needs() const override { return weighting_.queries().needs(); }
  bool weighs() const override { return true; }

  void refine(Plan& plan, const Scores&, const PolicyContext& context) const override {
    const auto bytes = [&](int layer, int head_kv) {
      return weighting_.queries().rounded_bytes(context, layer, head_kv);
    };
    const size_t used = each_row(context, bytes, [&](int layer, int head_kv) {
      const int row = context.cache.shape().row(layer, head_kv);
      const Eligible eligible = eligible_entries(context, row);
      auto support = eligible_of(plan.rows[size_t(row)], eligible);
      if (support.empty() || int(support.size()) == eligible.count()) return;
      const auto responses = weighting_.queries().rounded(
          context, layer, head_kv, [&](std::span<const float>) { return support; });
      std::vector<int> all(support.size());
      std::iota(all.begin(), all.end(), 0);
      weighting_.write(responses, eligible, context.cache.length(layer, head_kv), std::move(all),
                       plan.rows[size_t(row)]);
    });
    plan.scratch_peak = std::max(plan.scratch_peak, used);
  }

 private:
  Weighting weighting_;
};

}  // namespace

WrapperRow weights_row() {
  return {
      .name = "weights",
      .summary =
          "entries that stay answer for those that go: log-weights with which the cache gives "
          "what the whole one gave to queries to come",
      .paper = "The risk of KV cache compression, arXiv 2607.01520",
      .formula =
          "multipliers w in [e^-3, e^3] that make |sum_E phi - sum_S w phi|^2 small, phi_i(q) = "
          "alpha_qi [v_i - o_q; tau] / sqrt(queries), 8 sweeps of coordinate descent",
      .differences = "queries are sketched into `buckets` random sums",
      .knobs = Weighting::knobs(),
      .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
        return std::make_unique<WeightsWrapper>(knobs);
      }};
}

}  // namespace pith

#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/score_rows.h"
#include "policy/wrappers/weighting.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class OmpWrapper : public Wrapper {
 public:
  explicit OmpWrapper(const KnobValues& knobs)
      : weighting_(knobs), forced_(knobs.number("forced")) {}

  Needs needs() const override { return weighting_.queries().needs(); }
  bool weighs() const override { return true; }

  void refine(Plan& plan, const Scores& scores, const PolicyContext& context) const override {
    const auto bytes = [&](int layer, int head_kv) {
      return weighting_.queries().rounded_bytes(context, layer, head_kv);
    };
    const size_t used = each_row(context, bytes, [&](int layer, int head_kv) {
      const int row = context.cache.shape().row(layer, head_kv);
      const Eligible eligible = eligible_entries(context, row);
      const auto chosen = eligible_of(plan.rows[size_t(row)], eligible);
      if (chosen.empty() || int(chosen.size()) == eligible.count()) return;
      const auto features = weighting_.queries().rounded(context, layer, head_kv);
      const auto target = sum_of_eligible(features, eligible);
      const auto support = choose(features, target, eligible, chosen, scores.rows[size_t(row)]);
      weighting_.write(features, target, eligible, support, plan.rows[size_t(row)]);
    });
    plan.scratch_peak = std::max(plan.scratch_peak, used);
  }

 private:
  /// As many entries as `chosen`: the best of these by score, and what stands best for the rest.
  std::vector<int> choose(const measure::ByteRows& features, const measure::ByteRows::Row& target,
                          const Eligible& eligible, std::vector<int> chosen,
                          const std::vector<float>& scores) const {
    const auto forced = chosen.begin() + int(std::ceil(forced_ * double(chosen.size())));
    std::partial_sort(chosen.begin(), forced, chosen.end(), [&](int a, int b) {
      const float x = scores[size_t(a)], y = scores[size_t(b)];
      return x != y ? x > y : a > b;
    });
    std::vector<int> competing(size_t(eligible.count()));
    std::iota(competing.begin(), competing.end(), eligible.first);
    return measure::pursue(features, target, competing, {chosen.begin(), forced},
                           int(chosen.size()), {});
  }

  Weighting weighting_;
  double forced_;
};

std::vector<Knob> omp_knobs() {
  auto knobs = Weighting::knobs();
  knobs.push_back({.name = "forced",
                   .value = "0.25",
                   .min = 0,
                   .max = 1,
                   .choices = {},
                   .help = "part of each head's entries that goes by the score alone"});
  return knobs;
}

}  // namespace

WrapperRow omp_row() {
  return {.name = "omp",
          .summary =
              "of each head's entries a part goes by the score, the rest stands best for all "
              "others, and what stays is weighted",
          .paper = "The risk of KV cache compression, arXiv 2607.01520",
          .formula =
              "orthogonal matching pursuit on the features of `weights`, from the forced entries "
              "on: the largest phi_i.r / |phi_i|, r what is missing; then the weights",
          .differences = "in batches of up to 32, with three sweeps of the weights after each",
          .knobs = omp_knobs(),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
            return std::make_unique<OmpWrapper>(knobs);
          },
          .reselects = true};
}

}  // namespace pith

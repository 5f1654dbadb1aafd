#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/score_rows.h"
#include "policy/wrappers/weighting.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

/// The `count` best of `entries`, ascending; ties go to the newer.
std::vector<int> best_of(std::vector<int> entries, std::span<const float> scores, size_t count) {
  count = std::min(count, entries.size());
  const auto end = entries.begin() + ptrdiff_t(count);
  std::partial_sort(entries.begin(), end, entries.end(), [&](int a, int b) {
    const float x = scores[size_t(a)], y = scores[size_t(b)];
    return x != y ? x > y : a > b;
  });
  entries.resize(count);
  std::ranges::sort(entries);
  return entries;
}

class OmpWrapper : public Wrapper {
 public:
  explicit OmpWrapper(const KnobValues& knobs)
      : weighting_(knobs), forced_(knobs.number("forced")), pool_(knobs.number("pool")) {}

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
      const auto forced = best_of(chosen, scores.rows[size_t(row)],
                                  size_t(std::ceil(forced_ * double(chosen.size()))));
      const auto responses =
          weighting_.queries().rounded(context, layer, head_kv, [&](std::span<const float> sizes) {
            return candidates(eligible, forced, chosen.size() - forced.size(), sizes);
          });
      weighting_.write(responses, eligible, context.cache.length(layer, head_kv),
                       choose(responses, forced, int(chosen.size())), plan.rows[size_t(row)]);
    });
    plan.scratch_peak = std::max(plan.scratch_peak, used);
  }

 private:
  /// Entries that compete, ascending: those that are forced, and `pool` for each of the `count` to
  /// be found, the largest: what little an entry answers no weight makes up for.
  std::vector<int> candidates(const Eligible& eligible, std::span<const int> forced, size_t count,
                              std::span<const float> sizes) const {
    std::vector<int> others(size_t(eligible.count()));
    std::iota(others.begin(), others.end(), eligible.first);
    std::erase_if(others, [&](int i) { return std::ranges::binary_search(forced, i); });
    auto out = best_of(std::move(others), sizes, size_t(std::ceil(pool_ * double(count))));
    out.insert(out.end(), forced.begin(), forced.end());
    std::ranges::sort(out);
    return out;
  }

  /// Places of `count` entries: those that are forced, and what stands best for the rest.
  static std::vector<int> choose(const RoundedResponses& responses, std::span<const int> forced,
                                 int count) {
    std::vector<int> all(responses.entries.size()), first(forced.size());
    std::iota(all.begin(), all.end(), 0);
    std::ranges::transform(forced, first.begin(), [&](int entry) {
      return int(std::ranges::lower_bound(responses.entries, entry) - responses.entries.begin());
    });
    return measure::pursue(responses.profiles, responses.target, all, first, count, {});
  }

  Weighting weighting_;
  double forced_, pool_;
};

std::vector<Knob> omp_knobs() {
  auto knobs = Weighting::knobs();
  knobs.push_back({.name = "forced",
                   .value = "0.25",
                   .min = 0,
                   .max = 1,
                   .choices = {},
                   .help = "part of each head's entries that goes by the score alone"});
  knobs.push_back({.name = "pool",
                   .value = "6",
                   .min = 1,
                   .max = 1000,
                   .choices = {},
                   .help = "entries that compete for each that the score leaves open: those that "
                           "answer most"});
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

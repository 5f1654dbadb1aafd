#include "policy/wrappers/weighting.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pith {

namespace {

constexpr Reading kTail{.source = Source::tail, .count = 32, .outputs = true};
constexpr Reading kFuture{.source = Source::future, .outputs = true};
constexpr Reading kRepeat{.source = Source::repeat, .outputs = true};

std::vector<Reading> readings_of(const std::string& name) {
  if (name == "tail") return {kTail};
  if (name == "future") return {kFuture};
  if (name == "repeat") return {kFuture, kRepeat};
  return {kFuture, kTail};
}

/// The target of the fit: what all eligible entries answer together.
auto sum_of_eligible(const Features& features, const Eligible& eligible) {
  std::vector<int> all(size_t(eligible.count()));
  std::iota(all.begin(), all.end(), eligible.first);
  return measure::sum_of<float>(features, all);
}

}  // namespace

Weighting::Weighting(const KnobValues& knobs)
    : readings_(readings_of(knobs.choice("queries"))),
      fit_{.ridge = knobs.number("ridge"), .sweeps = 8},
      buckets_(knobs.integer("buckets")) {}

std::vector<Knob> Weighting::knobs() {
  return {{.name = "queries",
           .value = "both",
           .choices = {"both", "tail", "future", "repeat"},
           .help = "what the weights serve: the last 32 positions, queries of the prompt moved "
                   "behind it, both, or those moved and a repeat pass"},
          {.name = "ridge",
           .value = "0.2",
           .min = 0,
           .max = 100,
           .choices = {},
           .help = "pull of every weight towards 1"},
          {.name = "buckets",
           .value = "32",
           .min = 1,
           .max = 256,
           .integer = true,
           .choices = {},
           .help = "size of the sketch of the queries"}};
}

Needs Weighting::needs() const {
  Needs needs;
  for (const Reading& reading : readings_) needs = needs | reading.needs();
  return needs;
}

Features Weighting::features(const PolicyContext& context, int layer, int head_kv) const {
  return response_features(context, readings_, layer, head_kv, buckets_);
}

size_t Weighting::bytes(const PolicyContext& context, int layer, int head_kv) const {
  return response_feature_bytes(context, readings_, layer, head_kv, buckets_);
}

void Weighting::write(const Features& features, const Eligible& eligible, std::vector<int> support,
                      RowPlan& row) const {
  std::ranges::sort(support);
  const auto weights =
      measure::fit_weights<float>(features, sum_of_eligible(features, eligible), support, fit_);
  const auto length = int32_t(features.rows());
  row.keep.clear();
  row.log_weight.clear();
  for (int32_t i = 0; i < eligible.first; ++i) row.keep.push_back(i);
  row.keep.insert(row.keep.end(), support.begin(), support.end());
  for (int32_t i = eligible.last; i < length; ++i) row.keep.push_back(i);
  row.log_weight.assign(size_t(eligible.first), 0);
  for (const float weight : weights) row.log_weight.push_back(std::log(weight));
  row.log_weight.resize(row.keep.size(), 0);
}

std::vector<int> eligible_of(const RowPlan& row, const Eligible& eligible) {
  std::vector<int> out;
  std::ranges::copy_if(row.keep, std::back_inserter(out), [&](int32_t entry) {
    return entry >= eligible.first && entry < eligible.last;
  });
  return out;
}

}  // namespace pith

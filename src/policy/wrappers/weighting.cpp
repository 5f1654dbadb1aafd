#include "policy/wrappers/weighting.h"

#include <algorithm>
#include <cmath>

namespace pith {

namespace {

std::vector<Reading> readings_of(const std::string& name) {
  if (name == "tail") return {kTailQueries};
  if (name == "future") return {kFutureQueries};
  if (name == "repeat") return {kFutureQueries, kRepeatQueries};
  return {kFutureQueries, kTailQueries};
}

}  // namespace

ServedQueries::ServedQueries(const KnobValues& knobs)
    : readings_(readings_of(knobs.choice("queries"))), buckets_(knobs.integer("buckets")) {}

std::vector<Knob> ServedQueries::knobs(const std::string& buckets) {
  return {{.name = "queries",
           .value = "both",
           .choices = {"both", "tail", "future", "repeat"},
           .help = "what the weights serve: the last 32 positions, queries of the prompt moved "
                   "behind it, both, or those moved and a repeat pass"},
          {.name = "buckets",
           .value = buckets,
           .min = 1,
           .max = 256,
           .integer = true,
           .choices = {},
           .help = "size of the sketch of the queries"}};
}

Needs ServedQueries::needs() const {
  Needs needs;
  for (const Reading& reading : readings_) needs = needs | reading.needs();
  return needs;
}

Features ServedQueries::features(const PolicyContext& context, int layer, int head_kv) const {
  return response_features(context, readings_, layer, head_kv, buckets_);
}

RoundedResponses ServedQueries::rounded(const PolicyContext& context, int layer, int head_kv,
                                        const ChooseEntries& choose) const {
  const Eligible eligible = eligible_entries(context, context.cache.shape().row(layer, head_kv));
  return rounded_responses(context, readings_, layer, head_kv, buckets_, eligible, choose);
}

size_t ServedQueries::feature_bytes(const PolicyContext& context, int layer, int head_kv) const {
  return response_feature_bytes(context, readings_, layer, head_kv, buckets_);
}

size_t ServedQueries::rounded_bytes(const PolicyContext& context, int layer, int head_kv) const {
  return rounded_response_bytes(context, readings_, layer, head_kv, buckets_);
}

Weighting::Weighting(const KnobValues& knobs)
    : queries_(knobs), fit_{.ridge = knobs.number("ridge"), .sweeps = 8} {}

std::vector<Knob> Weighting::knobs() {
  auto knobs = ServedQueries::knobs();
  knobs.insert(knobs.begin() + 1, {.name = "ridge",
                                   .value = "0.2",
                                   .min = 0,
                                   .max = 100,
                                   .choices = {},
                                   .help = "pull of every weight towards 1"});
  return knobs;
}

void Weighting::write(const RoundedResponses& responses, const Eligible& eligible, int length,
                      std::vector<int> support, RowPlan& row) const {
  std::ranges::sort(support);
  const auto fitted = measure::fit_weights(responses.profiles, responses.target, support, fit_);
  const std::vector<double> weights(fitted.begin(), fitted.end());
  for (int& place : support) place = responses.entries[size_t(place)];
  write_support(eligible, length, support, weights, row);
}

void write_support(const Eligible& eligible, int length, std::span<const int> support,
                   std::span<const double> weights, RowPlan& row) {
  row.keep.clear();
  for (int32_t i = 0; i < eligible.first; ++i) row.keep.push_back(i);
  row.keep.insert(row.keep.end(), support.begin(), support.end());
  for (int32_t i = eligible.last; i < length; ++i) row.keep.push_back(i);
  row.log_weight.assign(size_t(eligible.first), 0);
  for (const double weight : weights) row.log_weight.push_back(float(std::log(weight)));
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

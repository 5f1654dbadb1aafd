#pragma once

#include <vector>

#include "measure/support.h"
#include "policy/policy.h"
#include "policy/protection.h"
#include "policy/response_features.h"

namespace pith {

/// What the wrappers that fit log-weights share: the queries that the weights are to serve, and how
/// the fit is done (The risk of KV cache compression, arXiv 2607.01520).
class Weighting {
 public:
  explicit Weighting(const KnobValues& knobs);

  static std::vector<Knob> knobs();

  Needs needs() const;
  Features features(const PolicyContext& context, int layer, int head_kv) const;
  size_t bytes(const PolicyContext& context, int layer, int head_kv) const;

  /// Makes `row` keep the protected entries and `support` of the eligible ones, in any order, with
  /// the log-weights that fit best.
  void write(const Features& features, const Eligible& eligible, std::vector<int> support,
             RowPlan& row) const;

 private:
  std::vector<Reading> readings_;
  measure::FitOptions fit_;
  int buckets_;
};

/// Entries of `keep` that are eligible.
std::vector<int> eligible_of(const RowPlan& row, const Eligible& eligible);

}  // namespace pith

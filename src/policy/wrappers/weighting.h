#pragma once

#include <vector>

#include "measure/support.h"
#include "policy/policy.h"
#include "policy/protection.h"
#include "policy/response_features.h"

namespace pith {

/// The queries that what stays is to serve, and the entries' response profiles to them.
class ServedQueries {
 public:
  explicit ServedQueries(const KnobValues& knobs);

  /// `buckets`: default size of the sketch.
  static std::vector<Knob> knobs(const std::string& buckets = "32");

  Needs needs() const;
  Features features(const PolicyContext& context, int layer, int head_kv) const;
  /// Of the entries that `choose` names.
  RoundedResponses rounded(const PolicyContext& context, int layer, int head_kv,
                           const ChooseEntries& choose) const;
  /// Of the two, what they lead to counted.
  size_t feature_bytes(const PolicyContext& context, int layer, int head_kv) const;
  size_t rounded_bytes(const PolicyContext& context, int layer, int head_kv) const;

 private:
  std::vector<Reading> readings_;
  int buckets_;
};

/// What the wrappers that fit log-weights share (The risk of KV cache compression, arXiv
/// 2607.01520).
class Weighting {
 public:
  explicit Weighting(const KnobValues& knobs);

  static std::vector<Knob> knobs();

  const ServedQueries& queries() const { return queries_; }

  /// Makes `row` of `length` entries keep the protected ones and, of those that `responses` are of,
  /// the ones at places `support`, in any order, with the log-weights that fit best.
  void write(const RoundedResponses& responses, const Eligible& eligible, int length,
             std::vector<int> support, RowPlan& row) const;

 private:
  ServedQueries queries_;
  measure::FitOptions fit_;
};

/// Makes `row` of `length` entries keep the protected ones and `support` of the eligible ones,
/// ascending, whose masses are multiplied by `weights`.
void write_support(const Eligible& eligible, int length, std::span<const int> support,
                   std::span<const double> weights, RowPlan& row);

/// Entries of `keep` that are eligible.
std::vector<int> eligible_of(const RowPlan& row, const Eligible& eligible);

}  // namespace pith

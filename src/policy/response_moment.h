#pragma once

#include <vector>

#include "policy/response_features.h"

namespace pith {

/// Sigma, the second moment of the response profiles of one row's entries over the queries of a
/// reading (see measure::add_features), and the attention that these queries pay. Held by its
/// smaller side: as the Gram matrix of the entries, exactly, where these are at most buckets *
/// (head_dim + 1), else as features sketched into `buckets`. The same for any number of
/// threads, to rounding.
class ResponseMoment {
 public:
  /// Throws Error(usage) where there are no queries.
  ResponseMoment(const PolicyContext& context, const Reading& reading, int layer, int head_kv,
                 int buckets);

  int entries() const { return int(mass_.size()); }
  double trace() const;
  /// All eigenvalues that may differ from 0, falling, none negative.
  std::vector<double> spectrum() const;
  /// (1 - w)^T G (1 - w) with w the multipliers of a plan: 0 for what it evicts.
  double error_of(const RowPlan& plan) const;
  /// Mean attention that a query pays to what a plan evicts.
  double evicted_mass(const RowPlan& plan) const;

 private:
  Features gram_;             // [entries, entries], or empty
  Features features_;         // [entries, columns], or empty
  std::vector<double> mass_;  // [entries], mean attention
};

/// Whether a row of so many entries is held as features, not exactly.
bool is_sketched(int entries, int head_dim, int buckets);

/// Working memory of making one and of its spectrum().
size_t response_moment_bytes(const PolicyContext& context, const Reading& reading, int layer,
                             int head_kv, int buckets);

/// The plan of a row that keeps all its entries.
RowPlan whole_row(int length);

}  // namespace pith

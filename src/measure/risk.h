#pragma once

#include <span>
#include <vector>

#include "measure/features.h"
#include "pith/risk.hpp"

namespace pith::measure {

/// Eigenvalues of Sigma, the second moment of the entries' response profiles over the queries,
/// falling, none negative. `side` is either matrix that has them: the Gram matrix of the features
/// [entries, entries], or features^T features [columns, columns]; the other side's are the same and
/// zeros. In double. Throws Error(internal) where `side` is not finite.
template <class T>
std::vector<double> spectrum(const RowMatrix<T>& side);

/// tail_k: the sum of all eigenvalues but the first `k`; 0 where there are no more.
double tail_sum(std::span<const double> eigenvalues, int k);

/// Bounds for `kept` >= 1 of `entries` entries (The risk of KV cache compression, arXiv
/// 2607.01520), up to constants.
RiskBounds risk_bounds(std::span<const double> eigenvalues, double tr, int kept, int entries);

/// part / whole, or 0 where the whole is: where values are zero there is nothing to lose.
double share_of(double part, double whole);

}  // namespace pith::measure

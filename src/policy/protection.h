#pragma once

#include <cstdint>
#include <vector>

#include "pith/policy.hpp"

namespace pith {

/// Entries [first, last) of a row that may be evicted; those before are sinks or a protected
/// prompt, those after the window.
struct Eligible {
  int first = 0, last = 0;
  int count() const { return last - first; }
};

Eligible eligible_entries(const PolicyContext& context, int row);

/// Fewest and most entries that each (layer, KV head) may keep [n_rows]: the protected ones, at
/// least one, and its length.
struct RowLimits {
  std::vector<int> least, most;
  int64_t least_total = 0, most_total = 0;
};

RowLimits row_limits(const PolicyContext& context);

/// Entries that the whole cache keeps: keep_total, or all where there are fewer. Throws
/// Error(budget) where that is less than the protected entries.
int64_t kept_entries(const RowLimits& limits, int64_t keep_total);

}  // namespace pith

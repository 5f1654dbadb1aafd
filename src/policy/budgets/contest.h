#pragma once

#include <span>
#include <vector>

#include "policy/policy.h"
#include "policy/protection.h"

namespace pith {

/// Shares `total` entries among `rows` by one contest over their scores: every row first gets its
/// `least` [n_rows] (at least its protected entries), filled with its best ones, and the others
/// compete. Ties go to the newer position, then to the lower layer and head. Adds to `quotas`
/// [n_rows].
void contest(const Scores& scores, const PolicyContext& context, std::span<const int> rows,
             std::span<const int> least, int64_t total, std::vector<int>& quotas);

/// Fewest entries of each row [n_rows]: its limit, or `part` of its `equal` share where that is
/// more.
std::vector<int> floors(const RowLimits& limits, std::span<const int> equal, double part);

/// The knob of that part.
Knob floor_knob(const std::string& value);

/// Shares `total` in proportion to `weights` [n_rows], each row within its limits: what a row
/// cannot take or needs more goes to or comes from the others in proportion. Exact total, by
/// largest remainder.
std::vector<int> proportional_quotas(std::span<const double> weights, std::span<const int> least,
                                     std::span<const int> most, int64_t total);

/// proportional_quotas of what is left of `total` once every row has its least; a row takes at most
/// `room` [n_rows] beside it.
std::vector<int> quotas_above_least(std::span<const double> weights, const RowLimits& limits,
                                    std::span<const int> room, int64_t total);

}  // namespace pith

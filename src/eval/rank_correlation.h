#pragma once

#include <span>
#include <vector>

namespace pith {

/// Rank of each value from 1, equal ones sharing the average of theirs. NaN is not allowed.
std::vector<double> average_ranks(std::span<const double> values);

/// Spearman's r_s: the correlation of the average ranks; 0 where either side is constant, which
/// ranks nothing. Both of the same size.
double spearman(std::span<const double> a, std::span<const double> b);

/// Mean of `values` in `bins` groups of equal size (up to one), by ascending `key`; equal keys stay
/// in their order. At least one value a bin.
std::vector<double> percentile_bins(std::span<const double> key, std::span<const double> values,
                                    int bins);

}  // namespace pith

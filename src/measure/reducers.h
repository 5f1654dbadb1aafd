#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "measure/features.h"

/// Reducers of a measure (The risk of KV cache compression, arXiv 2607.01520): n entries with
/// masses become fewer, each with a multiplier of its mass. Rows of `points` and `features` are
/// entries.
namespace pith::measure {

/// Kept entries, ascending, and what each one's mass is multiplied by.
struct Support {
  std::vector<int> entries;
  std::vector<double> weights;
};

using Random = std::mt19937_64;

/// Chances min(1, c size_i) that sum to `count`, which is at most the number of sizes > 0; where
/// all are zero, all are as likely. Sizes are finite and not negative. [sizes.size()].
std::vector<double> inclusion_chances(std::span<const double> sizes, int count);

/// What a systematic draw takes: the entries of `order` in whose stretch of the running sum of
/// chances one of offset, offset + 1, .. falls; `offset` is in [0, 1). Ascending.
std::vector<int> systematic_sample(std::span<const int> order, std::span<const double> chances,
                                   double offset);

/// Entries in the order of the leaves of a bisection tree. A cell is cut at the midpoint of its
/// chances along its leading direction (power iteration, 6 steps from the member farthest from the
/// mean; ties to the lower entry) until its chances sum to 1 at most.
std::vector<int> bisection_order(const RowMatrix<double>& points, std::span<const double> chances);

/// Systematic draw of `count` entries along the bisection tree, each weighted by one over its
/// chance, which goes by its mass: no region of the points is drawn from twice before the others.
Support tree_support(const RowMatrix<double>& points, std::span<const double> masses, int count,
                     Random& random);

/// `count` cells of about equal mass by bisection; of each the member nearest to its mean stands
/// for all. Draws nothing.
Support cluster_support(const RowMatrix<double>& points, std::span<const double> masses, int count);

/// Draws `count` entries with chances that go by the length of their features, each weighted by one
/// over its chance, so that the sum of the features is right in expectation.
Support pps_support(const RowMatrix<double>& features, int count, Random& random);

/// As pps_support, and the `directions` leading components of the sum of the features stay exactly
/// right until no more than directions + 1 entries are undecided: a random walk in the null space
/// of these components ends where every chance has become 0 or 1. At most count / 3 directions.
Support rounded_support(const RowMatrix<double>& features, int count, int directions,
                        Random& random);

}  // namespace pith::measure

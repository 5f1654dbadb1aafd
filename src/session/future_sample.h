#pragma once

#include <cstdint>
#include <vector>

#include "pith/policy.hpp"

namespace pith {

/// Queries of a prompt for Source::future, at a few hundred positions whatever its length: those
/// that a prompt of the length read so far asks for, where it was read in one call; where it was
/// read in several, or trimmed, those nearest to them among a grid of up to 256 positions over the
/// whole, at most 1/256 of it away.
struct FutureSample {
  Observation seen;            ///< queries alone
  int32_t first = 0, end = 0;  ///< positions whose turn it was to be observed: [first, end)

  /// Begins to read at `position`: what does not reach it is forgotten.
  void begin(int32_t position);
  /// Positions below `position` have been read; of the observed ones go those that are not `wanted`
  /// (sample_positions of as many tokens) or nearest to one that is.
  void thin(const std::vector<int32_t>& wanted);
  /// Forgets positions >= `position`.
  void trim(int32_t position);
};

/// Positions to observe of a prompt of `n` tokens: future_positions(n) and the grid, the multiples
/// of the smallest power of two of which there are at most 256. Ascending, at most 384.
std::vector<int32_t> sample_positions(int32_t n);

/// Indices into tokens that lie at positions first .. first + count - 1 of those `wanted`.
std::vector<int32_t> rows_among(const std::vector<int32_t>& wanted, int32_t first, int32_t count);

}  // namespace pith

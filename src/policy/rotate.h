#pragma once

#include <Eigen/Core>
#include <cmath>
#include <type_traits>

#include "pith/policy.hpp"

namespace pith {

/// Places of the two numbers of pair j.
struct RotatedPair {
  Eigen::Index first, second;
};

inline RotatedPair pair_of(const Rotation& rotation, size_t j) {
  const auto at = Eigen::Index(j), pairs = Eigen::Index(rotation.frequency.size());
  return rotation.neighbours ? RotatedPair{2 * at, 2 * at + 1} : RotatedPair{at, at + pairs};
}

/// Turns a query or key [head_dim] by `positions`, back where negative. The magnitude stays out: a
/// vector that was rotated before has it already.
template <class Vector>
void turn(const Rotation& rotation, double positions, Vector&& x) {
  using Scalar = typename std::decay_t<Vector>::Scalar;
  for (size_t j = 0; j < rotation.frequency.size(); ++j) {
    const double angle = positions * double(rotation.frequency[j]);
    const double c = std::cos(angle), s = std::sin(angle);
    const RotatedPair at = pair_of(rotation, j);
    const auto a = double(x[at.first]), b = double(x[at.second]);
    x[at.first] = Scalar(c * a - s * b);
    x[at.second] = Scalar(s * a + c * b);
  }
}

}  // namespace pith

#pragma once

#include <Eigen/Core>
#include <span>

#include "behavior/norm_jacobian.h"

namespace pith::behavior {

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Values of scoring positions lie in blocks of this many, so that loops over them have a fixed
/// length; positions that fill the last block up carry no attention.
constexpr int kLanes = 16;

/// `positions` rounded up to whole blocks.
constexpr int padded(int positions) { return (positions + kLanes - 1) / kLanes * kLanes; }

/// B = diag(sqrt p)(I - 1 p^T) A, for which KL ~ 1/2 ||B dx||^2 (methods: quadratic form), cut to
/// the `rank` leading rows of its singular value decomposition. `logit_map` is A [K, n_embd], `p`
/// [K]. Returns [rank, n_embd]; rows past the rank of B are zero.
template <class T>
RowMatrix<T> quadratic_form(const RowMatrix<T>& logit_map, std::span<const double> p, int rank);

/// For each scoring position a linear map from a shift of the final residual state to a few
/// numbers: shifts of logits, or coordinates in which the KL is half the squared length.
template <class T>
class Readout {
 public:
  Readout(int positions, int rank, int n_embd);

  int positions() const { return positions_; }
  int lanes() const { return padded(positions_); }
  int rank() const { return rank_; }

  /// `map` is [rank, n_embd].
  void set(int position, const RowMatrix<T>& map);

  /// From a map of what comes out of a norm to one of what goes into it.
  void pull_back(int position, const NormJacobian<T>& norm);

  /// Row `index` of every position's map [lanes, n_embd].
  auto row(int index) const { return rows_.middleRows(index * lanes(), lanes()); }

 private:
  int positions_, rank_;
  RowMatrix<T> rows_;  // [rank * lanes, n_embd]
};

}  // namespace pith::behavior

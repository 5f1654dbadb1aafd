#pragma once

#include <span>
#include <vector>

#include "measure/byte_rows.h"
#include "measure/features.h"

namespace pith::measure {

/// Bounds and effort of the multipliers' fit.
struct FitOptions {
  double ridge = 0.2;     ///< pulls every weight towards 1, in parts of its own curvature
  int sweeps = 8;         ///< over all kept entries
  double least = 0.0498;  ///< e^-3
  double most = 20.0855;  ///< e^3
};

/// Multipliers w of the kept entries for which sum_E phi - sum_S w phi is short: E the entries that
/// compete, S of them those that stay. Box-constrained least squares by coordinate descent from 1,
/// each step the exact minimum of its coordinate:
///     w_i <- clamp((phi_i . r + w_i G_ii + ridge G_ii) / ((1 + ridge) G_ii)),  G_ii = |phi_i|^2
/// with r the residual, so that no Gram matrix is formed. `features` is [entries, columns],
/// `target` the sum over E [columns]. Entries whose feature is zero keep weight 1. Returns
/// [support.size()].
template <class T>
std::vector<T> fit_weights(const RowMatrix<T>& features,
                           const Eigen::Matrix<T, 1, Eigen::Dynamic>& target,
                           std::span<const int> support, const FitOptions& options);
/// The same of rounded features; `target` is [width].
std::vector<float> fit_weights(const ByteRows& features, const ByteRows::Row& target,
                               std::span<const int> support, const FitOptions& options);

struct PursuitOptions {
  FitOptions fit{.ridge = 0.1, .sweeps = 3};  ///< after every batch
  int most_at_once = 32;  ///< entries of a batch: at most this, or size / most_batches,
  int batches = 8;        ///< and about size / batches
  int most_batches = 16;  ///< so that the effort is linear in the entries
};

/// A support of `size` entries by orthogonal matching pursuit with weights in a box: each batch
/// takes the entries most aligned with what is missing, phi_i . r / |phi_i|, then refits. Starts
/// from `forced`, which counts. Ties go to the lower entry. `competing` are the entries to choose
/// from, ascending, `forced` among them; `target` is the sum of their features. Returns the support
/// in the order it was chosen.
template <class T>
std::vector<int> pursue(const RowMatrix<T>& features,
                        const Eigen::Matrix<T, 1, Eigen::Dynamic>& target,
                        std::span<const int> competing, std::span<const int> forced, int size,
                        const PursuitOptions& options);
/// The same of rounded features, with gains in bytes as well; `target` is [width].
std::vector<int> pursue(const ByteRows& features, const ByteRows::Row& target,
                        std::span<const int> competing, std::span<const int> forced, int size,
                        const PursuitOptions& options);

/// Sum of the features of some entries [columns].
template <class T>
Eigen::Matrix<T, 1, Eigen::Dynamic> sum_of(const RowMatrix<T>& features,
                                           std::span<const int> entries);

/// |sum_E phi - sum_S w phi|^2: what a plan is estimated to err by.
template <class T>
T surrogate(const RowMatrix<T>& features, const Eigen::Matrix<T, 1, Eigen::Dynamic>& target,
            std::span<const int> support, std::span<const T> weights);

}  // namespace pith::measure

#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pith::measure {

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Attention of some queries over the entries of one KV head.
template <class T>
struct Responses {
  int entries = 0, queries = 0;  ///< a query is one position of one query head of the group
  int head_dim = 0;
  std::span<const T> alpha;   ///< [entries, queries]
  std::span<const T> values;  ///< [entries, head_dim]
  /// What entries that are not among these give to the outputs [queries, head_dim], or empty.
  std::span<const T> others = {};
};

/// tau^2 of the features, from `tau_rel` times the root mean square of the values' norms.
template <class T>
T tau_of(std::span<const T> values, int head_dim, T tau_rel);

/// Response profiles of the entries (The risk of KV cache compression, arXiv 2607.01520): entry i
/// answers query q with phi_i(q) = alpha_qi [v_i - o_q; tau] / sqrt(queries), so that a cache with
/// multipliers w in place of 1 errs by about |sum_i (1 - w_i) phi_i|^2 in the mean over the
/// queries.
///
/// The queries are sketched: each gets a random sign and is added to one of the buckets, which
/// leaves every inner product right in expectation; as many buckets as queries sketch nothing. Adds
/// to `out` [at least entries, buckets * (head_dim + 1)], so that several calls, each with its own
/// seed, make the sum of their Gram matrices; where `out` is `fresh`, whatever it holds is
/// replaced. `scale` is 1 / sqrt(queries) of the whole set. Linear in entries and queries.
template <class T>
void add_features(const Responses<T>& responses, T tau, T scale, uint32_t seed, RowMatrix<T>& out,
                  bool fresh = false);

/// The inner products of the same profiles, nothing sketched: adds to `out` [at least entries, at
/// least entries]
///     phi_i . phi_j = scale^2 sum_q alpha_qi alpha_qj [(v_i - o_q).(v_j - o_q) + tau^2]
/// by three products of whole matrices and no profile. Quadratic in entries, linear in queries.
template <class T>
void add_gram(const Responses<T>& responses, T tau, T scale, RowMatrix<T>& out);

}  // namespace pith::measure

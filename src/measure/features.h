#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pith::measure {

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Attention of some queries over the entries of one KV head.
template <class T>
struct Responses {
  int entries = 0, queries = 0;  ///< a query is one position of one query head of the group
  int head_dim = 0;
  std::span<const T> alpha;   ///< [entries, queries]
  std::span<const T> values;  ///< [at least entries, head_dim]
  /// What entries that are not among these give to the outputs [queries, head_dim], or empty.
  std::span<const T> others = {};
  T scale = 1;        ///< 1 / sqrt(queries), of the whole set that these are a part of
  uint32_t seed = 0;  ///< of the queries' signs in a sketch
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
/// leaves every inner product right in expectation; as many buckets as queries sketch nothing.
/// Several parts of the queries, each with its own seed, make the sum of their Gram matrices.
///
/// Made a few entries at a time, by all queries at once; linear in entries and queries.
template <class T>
class FeatureMaker {
 public:
  using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;

  /// Entries that are made fastest together.
  static constexpr int kTogether = 6;

  /// `parts`, all with the same values and in sum not empty, must outlive this.
  FeatureMaker(std::span<const Responses<T>> parts, T tau, int buckets);

  int width() const { return buckets_ * (head_dim_ + 1); }
  int entries() const { return entries_; }  ///< of the longest part

  /// Writes the profiles of `entries`, ascending, to rows at `out`, `stride` apart.
  void make(std::span<const int> entries, T* out, ptrdiff_t stride) const;

  struct Summary {
    Row total;             ///< what the profiles of all entries add up to [width]
    std::vector<T> sizes;  ///< about |profile|^2 of each, before the sketch, as if all queries were
                           ///< answered alike [entries]
  };
  /// In one pass over the attention: no profile is made.
  Summary summary() const;

 private:
  struct Part {
    const Responses<T>* responses;
    RowMatrix<T> answers;  // -o of each query, signed and scaled [queries, head_dim]
    Row signs;             // scaled [queries]
  };
  struct Source;  // a part as some entries see it

  template <int count>
  void make_entries(const int* entries, T* out, ptrdiff_t stride) const;
  std::vector<Source> sources(const int* entries, int count) const;
  const T* values_of(int entry) const;

  T tau_;
  int buckets_, head_dim_, entries_ = 0;
  std::vector<Part> parts_;
  Row mean_output_;  // of all queries [head_dim]
};

/// Adds the profiles of all entries to `out` [at least entries, buckets * (head_dim + 1)].
template <class T>
void add_features(std::span<const Responses<T>> parts, T tau, RowMatrix<T>& out);

/// The inner products of the same profiles, nothing sketched: adds to `out` [at least entries, at
/// least entries]
///     phi_i . phi_j = scale^2 sum_q alpha_qi alpha_qj [(v_i - o_q).(v_j - o_q) + tau^2]
/// by three products of whole matrices and no profile. Quadratic in entries, linear in queries.
template <class T>
void add_gram(const Responses<T>& responses, T tau, RowMatrix<T>& out);

}  // namespace pith::measure

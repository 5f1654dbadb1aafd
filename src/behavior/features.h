#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>

#include "behavior/readout.h"

namespace pith::behavior {

/// What the model did in one group: a KV head and the query heads that read it.
template <class T>
struct GroupInput {
  int layer = 0;
  int entries = 0;
  int heads = 0;  ///< query heads of the group
  int head_dim = 0;
  std::span<const T> alpha;   ///< [entries, positions, heads] attention, 0 for unseen entries
  std::span<const T> values;  ///< [entries, head_dim]
  const RowMatrix<T>* output_projection = nullptr;  ///< W_O [n_embd, n_head * head_dim]
  int first_head = 0;                               ///< index of the group's first query head
};

/// A group's share of the readout, entry by entry. With C = readout W_O of a query head at a
/// scoring position: u_i = C v_i and w = C o. Sums over evicted entries then give what they move
/// (deletion counterfactual): (M w - sum alpha u) / (1 - M), M = sum alpha.
template <class T>
struct GroupFeatures {
  int layer = 0;
  int heads = 0, positions = 0, lanes = 0, rank = 0;
  RowMatrix<T> alpha;   ///< [entries, heads * lanes]
  RowMatrix<T> values;  ///< u: [entries, rank * heads * lanes]
  RowMatrix<T> output;  ///< w: [1, rank * heads * lanes]

  int entries() const { return int(alpha.rows()); }
  int rows() const { return heads * lanes; }
};

/// Computes the features into `out`, whose memory is used again where it fits.
template <class T>
void make_features(const GroupInput<T>& group, const Readout<T>& readout, GroupFeatures<T>& out);

/// Bytes that the features of such a group take.
template <class T>
size_t feature_bytes(int entries, int heads, int positions, int rank) {
  return sizeof(T) * size_t(heads) * size_t(padded(positions)) *
         (size_t(entries) * size_t(rank + 1) + size_t(rank));
}

}  // namespace pith::behavior

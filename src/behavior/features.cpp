#include "behavior/features.h"

namespace pith::behavior {
namespace {

using Eigen::Index;

/// From [entries, positions, heads] to head-major rows, so that a sum over heads adds whole blocks.
template <class T>
void arrange_alpha(const GroupInput<T>& group, GroupFeatures<T>& out) {
  const int heads = out.heads, lanes = out.lanes;
  out.alpha.setZero(group.entries, out.rows());
  const T* from = group.alpha.data();
  for (int i = 0; i < group.entries; ++i) {
    T* to = out.alpha.row(i).data();
    for (int t = 0; t < out.positions; ++t) {
      for (int h = 0; h < heads; ++h) to[h * lanes + t] = *from++;
    }
  }
}

/// C of every query head and position, side by side: [head_dim, rank * heads * lanes].
template <class T>
RowMatrix<T> head_maps(const GroupInput<T>& group, const Readout<T>& readout) {
  const int d = group.head_dim, lanes = readout.lanes();
  RowMatrix<T> maps(d, Index(readout.rank()) * group.heads * lanes);
  for (int h = 0; h < group.heads; ++h) {
    const RowMatrix<T> projection =
        group.output_projection->middleCols(Index(group.first_head + h) * d, d).transpose();
    for (int j = 0; j < readout.rank(); ++j) {
      maps.middleCols(Index(j * group.heads + h) * lanes, lanes).noalias() =
          projection * readout.row(j).transpose();
    }
  }
  return maps;
}

}  // namespace

template <class T>
void make_features(const GroupInput<T>& group, const Readout<T>& readout, GroupFeatures<T>& out) {
  out.layer = group.layer;
  out.heads = group.heads;
  out.positions = readout.positions();
  out.lanes = readout.lanes();
  out.rank = readout.rank();
  arrange_alpha(group, out);

  const Eigen::Map<const RowMatrix<T>> values(group.values.data(), group.entries, group.head_dim);
  const RowMatrix<T> maps = head_maps(group, readout);
  out.values.resize(group.entries, maps.cols());
  out.values.noalias() = values * maps;

  const RowMatrix<T> attended = out.alpha.transpose() * values;
  out.output.resize(1, maps.cols());
  for (int j = 0; j < out.rank; ++j) {
    for (int row = 0; row < out.rows(); ++row) {
      const Index column = Index(j) * out.rows() + row;
      out.output(0, column) = attended.row(row).dot(maps.col(column));
    }
  }
}

template void make_features(const GroupInput<float>&, const Readout<float>&, GroupFeatures<float>&);
template void make_features(const GroupInput<double>&, const Readout<double>&,
                            GroupFeatures<double>&);

}  // namespace pith::behavior

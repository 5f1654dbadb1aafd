#include "behavior/mask_costs.h"

#include <algorithm>
#include <limits>

#include "base/parallel.h"

namespace pith::behavior {
namespace {

using Eigen::Index;

/// alpha u of every entry: [entries, rank * heads * lanes].
template <class T>
RowMatrix<T> attended_values(const GroupFeatures<T>& group) {
  RowMatrix<T> out(group.values.rows(), group.values.cols());
  for (int j = 0; j < group.rank; ++j) {
    const Index first = Index{j} * group.rows();
    out.middleCols(first, group.rows()) =
        group.alpha.cwiseProduct(group.values.middleCols(first, group.rows()));
  }
  return out;
}

/// What the group's readout moves by: [masks, rank * heads * lanes].
template <class T>
RowMatrix<T> shares_of(const GroupFeatures<T>& group, const RowMatrix<T>& attended,
                       const Eigen::Ref<const RowMatrix<T>>& keep) {
  // Lanes without a position carry no attention, and nothing to divide.
  const RowMatrix<T> retained = (keep * group.alpha).cwiseMax(std::numeric_limits<T>::min());
  RowMatrix<T> shares = keep * attended;
  for (int j = 0; j < group.rank; ++j) {
    auto part = shares.middleCols(Index{j} * group.rows(), group.rows());
    part = part.cwiseQuotient(retained);
  }
  shares.rowwise() -= group.output.row(0);
  return shares;
}

/// Adds a mask's shares [rank * heads * lanes], summed over heads, to `joined` [rank * lanes].
template <class T>
void join_heads(const GroupFeatures<T>& group, const T* shares, T* joined) {
  for (int j = 0; j < group.rank; ++j) {
    for (int row = 0; row < group.rows(); ++row) {
      joined[j * group.lanes + row % group.lanes] += shares[j * group.rows() + row];
    }
  }
}

}  // namespace

template <class T>
MaskCosts<T>::MaskCosts(int masks, Objective objective, std::span<const double> p)
    : objective_(objective), p_(p), head_costs_(size_t(masks)) {}

template <class T>
void MaskCosts<T>::add(const GroupFeatures<T>& group, const RowMatrix<T>& keep, int threads) {
  constexpr int kBlock = 32;
  const bool by_head = objective_ == Objective::head;
  const size_t cell = objective_ == Objective::layer ? size_t(group.layer) : 0;
  if (!by_head && cell >= joined_.size()) {
    joined_.resize(cell + 1, RowMatrix<T>::Zero(keep.rows(), Index{group.rank} * group.lanes));
  }
  positions_ = group.positions;
  const RowMatrix<T> attended = attended_values(group);
  const int masks = int(keep.rows());
  parallel_for((masks + kBlock - 1) / kBlock, threads, [&](int block) {
    const int first = block * kBlock, count = std::min(kBlock, masks - first);
    const RowMatrix<T> shares = shares_of<T>(group, attended, keep.middleRows(first, count));
    for (int m = 0; m < count; ++m) {
      if (by_head) {
        head_costs_[size_t(first) + size_t(m)] +=
            0.5 * shares.row(m).template cast<double>().squaredNorm() / positions_;
      } else {
        join_heads(group, shares.row(m).data(), joined_[cell].row(first + m).data());
      }
    }
  });
}

template <class T>
std::vector<double> MaskCosts<T>::costs() const {
  std::vector<double> costs = head_costs_;
  for (const RowMatrix<T>& joined : joined_) {
    for (Index m = 0; m < joined.rows(); ++m) {
      costs[size_t(m)] +=
          cost_of_shares<T>(joined.row(m).transpose().array(), objective_, positions_, p_);
    }
  }
  return costs;
}

template class MaskCosts<float>;
template class MaskCosts<double>;

}  // namespace pith::behavior

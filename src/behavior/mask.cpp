#include "behavior/mask.h"

#include <algorithm>
#include <limits>

#include "behavior/logit_metric.h"

namespace pith::behavior {
namespace {

template <class T>
using Lanes = Eigen::Array<T, kLanes, 1>;

template <class T>
auto lanes_at(const T* values) {
  return Eigen::Map<const Lanes<T>>(values);
}

template <class T>
auto lanes_at(T* values) {
  return Eigen::Map<Lanes<T>>(values);
}

/// Number of the cell that each group adds to.
template <class T>
int cell_of(const GroupFeatures<T>& group, int index, int first_layer, Objective objective) {
  if (objective == Objective::head) return index;
  return objective == Objective::layer ? group.layer - first_layer : 0;
}

/// Mean over positions for logit shifts [rank, lanes].
template <class T>
double kl_of_shifts(const Eigen::Array<T, Eigen::Dynamic, 1>& shift, int positions,
                    std::span<const double> p) {
  const size_t rank = p.size() / size_t(positions);
  std::vector<double> at(rank);
  double sum = 0;
  for (int t = 0; t < positions; ++t) {
    for (size_t j = 0; j < rank; ++j) at[j] = double(shift[int(j) * padded(positions) + t]);
    sum += kl_of_shift(p.subspan(size_t(t) * rank, rank), at);
  }
  return sum / positions;
}

}  // namespace

template <class T>
double cost_of_shares(const Eigen::Array<T, Eigen::Dynamic, 1>& shares, Objective objective,
                      int positions, std::span<const double> p) {
  if (objective == Objective::kl) return kl_of_shifts(shares, positions, p);
  return 0.5 * shares.template cast<double>().square().sum() / positions;
}

template <class T>
Mask<T>::Mask(std::span<const GroupFeatures<T>> groups, Objective objective,
              std::span<const double> p)
    : objective_(objective),
      positions_(groups.front().positions),
      rank_(groups.front().rank),
      lanes_(groups.front().lanes),
      p_(p) {
  for (const GroupFeatures<T>& features : groups) {
    const int cell = cell_of(features, int(groups_.size()), groups.front().layer, objective);
    const int width = objective == Objective::head ? features.rows() : lanes_;
    if (cell >= int(cells_.size())) cells_.resize(size_t(cell) + 1);
    cells_[size_t(cell)].setZero(Eigen::Index(rank_) * width);
    groups_.push_back({&features, cell, Values::Ones(features.rows()),
                       features.output.row(0).transpose().array()});
  }
}

template <class T>
T Mask<T>::rise(int group, int entry, T eps, Scratch& scratch) const {
  const Group& g = groups_[size_t(group)];
  const auto alpha = g.features->alpha.row(entry).transpose().array();
  if ((g.retained - alpha).minCoeff() < eps) return std::numeric_limits<T>::infinity();
  return change(group, entry, T(1), scratch);
}

template <class T>
T Mask<T>::fall(int group, int entry, Scratch& scratch) const {
  return -change(group, entry, T(-1), scratch);
}

template <class T>
T Mask<T>::change(int group, int entry, T sign, Scratch& scratch) const {
  const Group& g = groups_[size_t(group)];
  if (objective_ == Objective::head) return head_change(g, entry, sign) / T(positions_);
  join_heads(g, entry, sign, scratch);
  const Values& joined = cells_[size_t(g.cell)];
  if (objective_ == Objective::kl) return T(cost_of(joined + scratch) - cost_of(joined));
  return ((joined + T(0.5) * scratch) * scratch).sum() / T(positions_);
}

/// Sum of y . delta + 1/2 |delta|^2 with delta = alpha / (r - alpha) (b - u), in one pass over u.
template <class T>
T Mask<T>::head_change(const Group& group, int entry, T sign) const {
  const int rows = group.features->rows();
  const T* alpha = group.features->alpha.row(entry).data();
  const T* u = group.features->values.row(entry).data();
  const T* y = cells_[size_t(group.cell)].data();
  T total = 0;
  for (int row = 0; row < rows; row += kLanes) {
    const Lanes<T> a = sign * lanes_at(alpha + row);
    const Lanes<T> factor = a / (lanes_at(group.retained.data() + row) - a);
    Lanes<T> sum = Lanes<T>::Zero();
    for (int at = row; at < rank_ * rows; at += rows) {
      const Lanes<T> delta = factor * (lanes_at(group.mean.data() + at) - lanes_at(u + at));
      sum += (lanes_at(y + at) + T(0.5) * delta) * delta;
    }
    total += sum.sum();
  }
  return total;
}

/// The entry's delta summed over the group's query heads into `shift` [rank, lanes].
template <class T>
void Mask<T>::join_heads(const Group& group, int entry, T sign, Scratch& shift) const {
  const int rows = group.features->rows();
  const T* alpha = group.features->alpha.row(entry).data();
  const T* u = group.features->values.row(entry).data();
  shift.setZero(Eigen::Index(rank_) * lanes_);
  for (int row = 0; row < rows; row += kLanes) {
    const Lanes<T> a = sign * lanes_at(alpha + row);
    const Lanes<T> factor = a / (lanes_at(group.retained.data() + row) - a);
    for (int j = 0; j < rank_; ++j) {
      const int at = j * rows + row;
      lanes_at(shift.data() + j * lanes_ + row % lanes_) +=
          factor * (lanes_at(group.mean.data() + at) - lanes_at(u + at));
    }
  }
}

template <class T>
void Mask<T>::evict(int group, int entry) {
  move(group, entry, T(1));
}

template <class T>
void Mask<T>::restore(int group, int entry) {
  move(group, entry, T(-1));
}

template <class T>
void Mask<T>::move(int group, int entry, T sign) {
  Group& g = groups_[size_t(group)];
  const int rows = g.features->rows();
  const int width = objective_ == Objective::head ? rows : lanes_;
  const T* alpha = g.features->alpha.row(entry).data();
  const T* u = g.features->values.row(entry).data();
  T* y = cells_[size_t(g.cell)].data();
  for (int row = 0; row < rows; row += kLanes) {
    const Lanes<T> a = sign * lanes_at(alpha + row);
    auto retained = lanes_at(g.retained.data() + row);
    retained -= a;
    const Lanes<T> factor = a / retained;
    for (int j = 0; j < rank_; ++j) {
      auto mean = lanes_at(g.mean.data() + j * rows + row);
      const Lanes<T> delta = factor * (mean - lanes_at(u + j * rows + row));
      mean += delta;
      lanes_at(y + j * width + row % width) += delta;
    }
  }
}

template <class T>
double Mask<T>::cost_of(const Values& joined) const {
  return cost_of_shares(joined, objective_, positions_, p_);
}

template <class T>
double Mask<T>::cost() const {
  double sum = 0;
  for (const Values& joined : cells_) sum += cost_of(joined);
  return sum;
}

template <class T>
double Mask<T>::least_retained() const {
  double least = 1;
  for (const Group& g : groups_) least = std::min(least, double(g.retained.minCoeff()));
  return least;
}

template class Mask<float>;
template class Mask<double>;
template double cost_of_shares(const Eigen::ArrayXf&, Objective, int, std::span<const double>);
template double cost_of_shares(const Eigen::ArrayXd&, Objective, int, std::span<const double>);

}  // namespace pith::behavior

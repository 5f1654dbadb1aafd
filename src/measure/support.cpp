#include "measure/support.h"

#include <algorithm>
#include <iterator>

namespace pith::measure {

namespace {

template <class T>
using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;

/// Rows as they are; see ByteRows.
template <class T>
class PlainRows {
 public:
  explicit PlainRows(const RowMatrix<T>& features) : features_(features) {}

  Eigen::Index rows() const { return features_.rows(); }
  Eigen::Index width() const { return features_.cols(); }
  T squared_norm(int i) const { return features_.row(i).squaredNorm(); }
  T dot(int i, const Row<T>& x) const { return features_.row(i).dot(x); }
  void add(int i, T factor, Row<T>& x) const { x += factor * features_.row(i); }
  void gains(std::span<const int> some, const Row<T>& x, std::vector<T>& gain) const {
    for (const int i : some) {
      const T norm = features_.row(i).norm();
      gain[size_t(i)] = norm > 0 ? dot(i, x) / norm : 0;
    }
  }

 private:
  const RowMatrix<T>& features_;
};

/// Weights of a growing support and the residual that they leave.
template <class T, class Rows>
class Fit {
 public:
  Fit(const Rows& rows, const Row<T>& target) : rows_(rows), residual_(Row<T>::Zero(rows.width())) {
    residual_.head(target.size()) = target;
  }

  void add(int entry) {
    support_.push_back(entry);
    weights_.push_back(1);
    curvature_.push_back(rows_.squared_norm(entry));
    rows_.add(entry, -1, residual_);
  }

  void sweep(const FitOptions& options) {
    const auto ridge = T(options.ridge), least = T(options.least), most = T(options.most);
    for (size_t s = 0; s < support_.size(); ++s) {
      const T g = curvature_[s];
      if (!(g > 0)) continue;
      const T along = rows_.dot(support_[s], residual_);
      const T best = (along + (weights_[s] + ridge) * g) / ((1 + ridge) * g);
      const T weight = std::clamp(best, least, most);
      if (weight == weights_[s]) continue;
      rows_.add(support_[s], weights_[s] - weight, residual_);
      weights_[s] = weight;
    }
  }

  const Row<T>& residual() const { return residual_; }
  const std::vector<int>& support() const { return support_; }
  const std::vector<T>& weights() const { return weights_; }

 private:
  const Rows& rows_;
  Row<T> residual_;
  std::vector<int> support_;
  std::vector<T> weights_, curvature_;
};

/// The `count` best of `rest` by gain, best first; ties go to the lower entry.
template <class T>
std::vector<int> best_of(std::vector<int> rest, const std::vector<T>& gain, int count) {
  std::partial_sort(rest.begin(), rest.begin() + count, rest.end(), [&](int a, int b) {
    const T x = gain[size_t(a)], y = gain[size_t(b)];
    return x != y ? x > y : a < b;
  });
  rest.resize(size_t(count));
  return rest;
}

template <class T, class Rows>
std::vector<T> fitted(const Rows& rows, const Row<T>& target, std::span<const int> support,
                      const FitOptions& options) {
  Fit<T, Rows> fit(rows, target);
  for (const int entry : support) fit.add(entry);
  for (int sweep = 0; sweep < options.sweeps; ++sweep) fit.sweep(options);
  return fit.weights();
}

template <class T, class Rows>
std::vector<int> pursued(const Rows& rows, const Row<T>& target, std::span<const int> competing,
                         std::span<const int> forced, int size, const PursuitOptions& options) {
  Fit<T, Rows> fit(rows, target);
  std::vector<int> rest;
  std::vector<bool> taken(size_t(rows.rows()), false);
  const auto take = [&](std::span<const int> entries) {
    for (const int entry : entries) {
      fit.add(entry);
      taken[size_t(entry)] = true;
    }
    for (int s = 0; s < options.fit.sweeps && !entries.empty(); ++s) fit.sweep(options.fit);
  };
  take(forced);
  std::ranges::copy_if(competing, std::back_inserter(rest),
                       [&](int i) { return !taken[size_t(i)]; });
  std::vector<T> gain(taken.size());
  const int most = std::max(options.most_at_once, size / options.most_batches);
  const int batch = std::max(1, std::min(most, size / options.batches));
  while (int(fit.support().size()) < size && !rest.empty()) {
    rows.gains(rest, fit.residual(), gain);
    const int left = size - int(fit.support().size());
    take(best_of(rest, gain, std::min({batch, left, int(rest.size())})));
    std::erase_if(rest, [&](int i) { return taken[size_t(i)]; });
  }
  return fit.support();
}

}  // namespace

template <class T>
Row<T> sum_of(const RowMatrix<T>& features, std::span<const int> entries) {
  Row<T> sum = Row<T>::Zero(features.cols());
  for (const int entry : entries) sum += features.row(entry);
  return sum;
}

template <class T>
T surrogate(const RowMatrix<T>& features, const Row<T>& target, std::span<const int> support,
            std::span<const T> weights) {
  Row<T> residual = target;
  for (size_t s = 0; s < support.size(); ++s) residual -= weights[s] * features.row(support[s]);
  return residual.squaredNorm();
}

template <class T>
std::vector<T> fit_weights(const RowMatrix<T>& features, const Row<T>& target,
                           std::span<const int> support, const FitOptions& options) {
  return fitted<T>(PlainRows<T>(features), target, support, options);
}

std::vector<float> fit_weights(const ByteRows& features, const Row<float>& target,
                               std::span<const int> support, const FitOptions& options) {
  return fitted<float>(features, target, support, options);
}

template <class T>
std::vector<int> pursue(const RowMatrix<T>& features, const Row<T>& target,
                        std::span<const int> competing, std::span<const int> forced, int size,
                        const PursuitOptions& options) {
  return pursued<T>(PlainRows<T>(features), target, competing, forced, size, options);
}

std::vector<int> pursue(const ByteRows& features, const Row<float>& target,
                        std::span<const int> competing, std::span<const int> forced, int size,
                        const PursuitOptions& options) {
  return pursued<float>(features, target, competing, forced, size, options);
}

template Row<float> sum_of<float>(const RowMatrix<float>&, std::span<const int>);
template Row<double> sum_of<double>(const RowMatrix<double>&, std::span<const int>);
template float surrogate<float>(const RowMatrix<float>&, const Row<float>&, std::span<const int>,
                                std::span<const float>);
template double surrogate<double>(const RowMatrix<double>&, const Row<double>&,
                                  std::span<const int>, std::span<const double>);
template std::vector<float> fit_weights<float>(const RowMatrix<float>&, const Row<float>&,
                                               std::span<const int>, const FitOptions&);
template std::vector<double> fit_weights<double>(const RowMatrix<double>&, const Row<double>&,
                                                 std::span<const int>, const FitOptions&);
template std::vector<int> pursue<double>(const RowMatrix<double>&, const Row<double>&,
                                         std::span<const int>, std::span<const int>, int,
                                         const PursuitOptions&);

}  // namespace pith::measure

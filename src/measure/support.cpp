#include "measure/support.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <type_traits>

namespace pith::measure {

namespace {

template <class T>
using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;

/// Rows as they are.
template <class T>
class PlainRows {
 public:
  explicit PlainRows(const RowMatrix<T>& features) : features_(features) {}

  Eigen::Map<const Row<T>> row(int i) {
    return {features_.data() + features_.cols() * i, features_.cols()};
  }

 private:
  const RowMatrix<T>& features_;
};

/// Rows rounded to the upper 16 bits of each float: a pursuit reads all of them at every batch, and
/// that is most of its time.
class PackedRows {
 public:
  explicit PackedRows(const RowMatrix<float>& features)
      : packed_(features.rows(), features.cols()), row_(features.cols()) {
    std::transform(features.data(), features.data() + features.size(), packed_.data(),
                   [](float x) { return uint16_t((std::bit_cast<uint32_t>(x) + 0x8000U) >> 16U); });
  }

  /// Valid until the next call.
  Eigen::Map<const Row<float>> row(int i) {
    const uint16_t* from = packed_.data() + packed_.cols() * i;
    std::transform(from, from + packed_.cols(), row_.data(),
                   [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16U); });
    return {row_.data(), row_.size()};
  }

 private:
  RowMatrix<uint16_t> packed_;
  Row<float> row_;
};

/// Weights of a growing support and the residual that they leave.
template <class T, class Rows>
class Fit {
 public:
  Fit(Rows& rows, const Row<T>& target) : rows_(rows), residual_(target) {}

  void add(int entry) {
    const auto phi = rows_.row(entry);
    support_.push_back(entry);
    weights_.push_back(1);
    curvature_.push_back(phi.squaredNorm());
    residual_ -= phi;
  }

  void sweep(const FitOptions& options) {
    const auto ridge = T(options.ridge), least = T(options.least), most = T(options.most);
    for (size_t s = 0; s < support_.size(); ++s) {
      const T g = curvature_[s];
      if (!(g > 0)) continue;
      const auto phi = rows_.row(support_[s]);
      const T best = (phi.dot(residual_) + (weights_[s] + ridge) * g) / ((1 + ridge) * g);
      const T weight = std::clamp(best, least, most);
      residual_ += (weights_[s] - weight) * phi;
      weights_[s] = weight;
    }
  }

  const Row<T>& residual() const { return residual_; }
  const std::vector<int>& support() const { return support_; }
  const std::vector<T>& weights() const { return weights_; }

 private:
  Rows& rows_;
  Row<T> residual_;
  std::vector<int> support_;
  std::vector<T> weights_, curvature_;
};

/// Moves the `count` best of `rest` by gain to the front, best first; ties go to the lower entry.
template <class T>
void best_first(std::vector<int>& rest, const std::vector<T>& gain, int count) {
  std::partial_sort(rest.begin(), rest.begin() + count, rest.end(), [&](int a, int b) {
    const T x = gain[size_t(a)], y = gain[size_t(b)];
    return x != y ? x > y : a < b;
  });
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
  PlainRows<T> rows(features);
  Fit<T, PlainRows<T>> fit(rows, target);
  for (const int entry : support) fit.add(entry);
  for (int sweep = 0; sweep < options.sweeps; ++sweep) fit.sweep(options);
  return fit.weights();
}

template <class T>
std::vector<int> pursue(const RowMatrix<T>& features, const Row<T>& target,
                        std::span<const int> competing, std::span<const int> forced, int size,
                        const PursuitOptions& options) {
  using Rows = std::conditional_t<std::same_as<T, float>, PackedRows, PlainRows<T>>;
  Rows rows(features);
  Fit<T, Rows> fit(rows, target);
  std::vector<int> rest;
  std::vector<int> first(forced.begin(), forced.end());
  std::ranges::sort(first);
  std::ranges::set_difference(competing, first, std::back_inserter(rest));
  for (const int entry : forced) fit.add(entry);
  const auto refit = [&] {
    for (int s = 0; s < options.fit.sweeps; ++s) fit.sweep(options.fit);
  };
  if (!forced.empty()) refit();
  std::vector<T> gain(size_t(features.rows())),
      norms(size_t(features.rows()), -1);  // -1: not known
  const int most = std::max(options.most_at_once, size / options.most_batches);
  const int batch = std::max(1, std::min(most, size / options.batches));
  while (int(fit.support().size()) < size && !rest.empty()) {
    for (const int entry : rest) {
      const auto phi = rows.row(entry);
      T& norm = norms[size_t(entry)];
      if (norm < 0) norm = phi.norm();
      gain[size_t(entry)] = norm > 0 ? phi.dot(fit.residual()) / norm : 0;
    }
    const int count = std::min({batch, size - int(fit.support().size()), int(rest.size())});
    best_first(rest, gain, count);
    for (int i = 0; i < count; ++i) fit.add(rest[size_t(i)]);
    rest.erase(rest.begin(), rest.begin() + count);
    refit();
  }
  return fit.support();
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
template std::vector<int> pursue<float>(const RowMatrix<float>&, const Row<float>&,
                                        std::span<const int>, std::span<const int>, int,
                                        const PursuitOptions&);
template std::vector<int> pursue<double>(const RowMatrix<double>&, const Row<double>&,
                                         std::span<const int>, std::span<const int>, int,
                                         const PursuitOptions&);

}  // namespace pith::measure

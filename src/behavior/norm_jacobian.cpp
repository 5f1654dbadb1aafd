#include "behavior/norm_jacobian.h"

#include <algorithm>
#include <cmath>

namespace pith::behavior {
namespace {

template <class T>
void centre(std::span<T> values) {
  double sum = 0;
  for (const T v : values) sum += double(v);
  const T mean = T(sum / double(values.size()));
  for (T& v : values) v -= mean;
}

}  // namespace

template <class T>
NormJacobian<T>::NormJacobian(NormKind kind, std::span<const T> x, std::span<const T> gain,
                              double eps)
    : kind_(kind), x_(x.begin(), x.end()), gain_(gain) {
  if (kind == NormKind::layer) centre(std::span(x_));
  double squares = 0;
  for (const T v : x_) squares += double(v) * double(v);
  const double n = double(x.size());
  const double s = std::sqrt(squares / n + eps);
  inverse_ = T(1 / s);
  radial_ = T(1 / (n * s * s * s));
}

template <class T>
void NormJacobian<T>::project(std::span<T> d) const {
  double dot = 0;
  for (size_t i = 0; i < d.size(); ++i) dot += double(x_[i]) * double(d[i]);
  const T along = T(dot) * radial_;
  if (kind_ == NormKind::layer) centre(d);
  for (size_t i = 0; i < d.size(); ++i) d[i] = d[i] * inverse_ - x_[i] * along;
}

template <class T>
void NormJacobian<T>::push(std::span<const T> d, std::span<T> out) const {
  std::ranges::copy(d, out.begin());
  if (kind_ == NormKind::none) return;
  project(out);
  for (size_t i = 0; i < out.size(); ++i) out[i] *= gain_[i];
}

template <class T>
void NormJacobian<T>::pull_back(std::span<T> row) const {
  if (kind_ == NormKind::none) return;
  for (size_t i = 0; i < row.size(); ++i) row[i] *= gain_[i];
  project(row);
}

template class NormJacobian<float>;
template class NormJacobian<double>;

}  // namespace pith::behavior

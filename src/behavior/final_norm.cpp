#include "behavior/final_norm.h"

#include <cmath>

namespace pith::behavior {

template <class T>
NormJacobian<T>::NormJacobian(std::span<const T> x, std::span<const T> gain, double eps)
    : x_(x), gain_(gain) {
  double squares = 0;
  for (const T v : x) squares += double(v) * double(v);
  const double n = double(x.size());
  const double s = std::sqrt(squares / n + eps);
  inverse_ = T(1 / s);
  radial_ = T(1 / (n * s * s * s));
}

template <class T>
void NormJacobian<T>::push(std::span<const T> d, std::span<T> out) const {
  double dot = 0;
  for (size_t i = 0; i < d.size(); ++i) dot += double(x_[i]) * double(d[i]);
  const T along = T(dot) * radial_;
  for (size_t i = 0; i < d.size(); ++i) out[i] = gain_[i] * (d[i] * inverse_ - x_[i] * along);
}

template <class T>
void NormJacobian<T>::pull_back(std::span<T> row) const {
  double dot = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] *= gain_[i];
    dot += double(row[i]) * double(x_[i]);
  }
  const T along = T(dot) * radial_;
  for (size_t i = 0; i < row.size(); ++i) row[i] = row[i] * inverse_ - x_[i] * along;
}

template class NormJacobian<float>;
template class NormJacobian<double>;

}  // namespace pith::behavior

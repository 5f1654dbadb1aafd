#include "measure/features.h"

#include <cmath>
#include <random>
#include <vector>

namespace pith::measure {

namespace {

template <class T>
using Map = Eigen::Map<const RowMatrix<T>>;

/// Bucket b takes the queries b, b + buckets, .. with these signs.
std::vector<int> random_signs(int queries, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> signs(size_t(queries), 0);
  for (int& sign : signs) sign = (random() & 1U) != 0 ? 1 : -1;
  return signs;
}

/// o_q of every query [queries, head_dim].
template <class T>
RowMatrix<T> outputs_of(const Responses<T>& r) {
  RowMatrix<T> out = Map<T>(r.alpha.data(), r.entries, r.queries).transpose() *
                     Map<T>(r.values.data(), r.entries, r.head_dim);
  if (!r.others.empty()) out += Map<T>(r.others.data(), r.queries, r.head_dim);
  return out;
}

}  // namespace

template <class T>
T tau_of(std::span<const T> values, int head_dim, T tau_rel) {
  if (values.empty()) return 0;
  const Map<T> v(values.data(), Eigen::Index(values.size()) / head_dim, head_dim);
  return tau_rel * std::sqrt(v.squaredNorm() / T(v.rows()));
}

template <class T>
void add_features(const Responses<T>& r, T tau, T scale, uint32_t seed, RowMatrix<T>& out) {
  const Map<T> alpha(r.alpha.data(), r.entries, r.queries);
  const Map<T> values(r.values.data(), r.entries, r.head_dim);
  const RowMatrix<T> outputs = outputs_of(r);
  const auto buckets = int(out.cols() / (r.head_dim + 1));
  const std::vector<int> signs = random_signs(r.queries, seed);
  for (int b = 0; b < buckets && b < r.queries; ++b) {
    const int count = (r.queries - b + buckets - 1) / buckets;
    RowMatrix<T> paid(r.entries, count), got(count, r.head_dim);
    for (int j = 0; j < count; ++j) {
      const int q = b + j * buckets;
      paid.col(j) = alpha.col(q) * (scale * T(signs[size_t(q)]));
      got.row(j) = outputs.row(q);
    }
    const Eigen::Matrix<T, Eigen::Dynamic, 1> mass = paid.rowwise().sum();
    auto block = out.block(0, Eigen::Index{b} * (r.head_dim + 1), r.entries, r.head_dim + 1);
    block.leftCols(r.head_dim).noalias() -= paid * got;
    block.leftCols(r.head_dim) += mass.asDiagonal() * values;
    block.col(r.head_dim) += mass * tau;
  }
}

template <class T>
void add_gram(const Responses<T>& r, T tau, T scale, RowMatrix<T>& out) {
  const Map<T> values(r.values.data(), r.entries, r.head_dim);
  const RowMatrix<T> outputs = outputs_of(r);
  const RowMatrix<T> paid = scale * Map<T>(r.alpha.data(), r.entries, r.queries);
  // (v_i - o).(v_j - o) = v_i.v_j + (|o|^2 / 2 - v_i.o) + (|o|^2 / 2 - v_j.o)
  RowMatrix<T> off = -values * outputs.transpose();
  off.rowwise() += outputs.rowwise().squaredNorm().transpose() / 2;
  off.array() *= paid.array();
  const RowMatrix<T> cross = off * paid.transpose();
  RowMatrix<T> inner = values * values.transpose();
  inner.array() += tau * tau;
  inner.array() *= (paid * paid.transpose()).array();
  out.topLeftCorner(r.entries, r.entries) += inner + cross + cross.transpose();
}

template float tau_of<float>(std::span<const float>, int, float);
template double tau_of<double>(std::span<const double>, int, double);
template void add_features<float>(const Responses<float>&, float, float, uint32_t,
                                  RowMatrix<float>&);
template void add_features<double>(const Responses<double>&, double, double, uint32_t,
                                   RowMatrix<double>&);
template void add_gram<float>(const Responses<float>&, float, float, RowMatrix<float>&);
template void add_gram<double>(const Responses<double>&, double, double, RowMatrix<double>&);

}  // namespace pith::measure

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
  std::vector<int> signs;
  for (int q = 0; q < queries; ++q) signs.push_back((random() & 1U) != 0 ? 1 : -1);
  return signs;
}

}  // namespace

template <class T>
T tau_of(std::span<const T> values, int head_dim, T tau_rel) {
  if (values.empty()) return 0;
  const Map<T> v(values.data(), Eigen::Index(values.size()) / head_dim, head_dim);
  return tau_rel * std::sqrt(v.squaredNorm() / T(v.rows()));
}

Eigen::Index feature_columns(int queries, int head_dim, int buckets) {
  return Eigen::Index(buckets > 0 ? buckets : queries) * (head_dim + 1);
}

template <class T>
void write_features(const Responses<T>& r, T tau, int buckets, uint32_t seed, Eigen::Index column,
                    RowMatrix<T>& out) {
  const Map<T> alpha(r.alpha.data(), r.entries, r.queries);
  const Map<T> values(r.values.data(), r.entries, r.head_dim);
  const RowMatrix<T> outputs = alpha.transpose() * values;  // [queries, head_dim]
  const int blocks = buckets > 0 ? buckets : r.queries;
  std::vector<int> signs(size_t(r.queries), 1);
  if (buckets > 0) signs = random_signs(r.queries, seed);
  const T scale = T(1) / std::sqrt(T(r.queries));
  for (int b = 0; b < blocks; ++b) {
    std::vector<int> mine;
    for (int q = b; q < r.queries; q += blocks) mine.push_back(q);
    RowMatrix<T> paid(r.entries, Eigen::Index(mine.size()));
    RowMatrix<T> got(Eigen::Index(mine.size()), r.head_dim);
    for (size_t j = 0; j < mine.size(); ++j) {
      const auto to = Eigen::Index(j);
      paid.col(to) = alpha.col(mine[j]) * (scale * T(signs[size_t(mine[j])]));
      got.row(to) = outputs.row(mine[j]);
    }
    const Eigen::Matrix<T, Eigen::Dynamic, 1> mass = paid.rowwise().sum();
    auto block = out.middleCols(column + Eigen::Index(b) * (r.head_dim + 1), r.head_dim + 1);
    block.leftCols(r.head_dim).noalias() = -(paid * got);
    block.leftCols(r.head_dim) += mass.asDiagonal() * values;
    block.col(r.head_dim) = mass * tau;
  }
}

template float tau_of<float>(std::span<const float>, int, float);
template double tau_of<double>(std::span<const double>, int, double);
template void write_features<float>(const Responses<float>&, float, int, uint32_t, Eigen::Index,
                                    RowMatrix<float>&);
template void write_features<double>(const Responses<double>&, double, int, uint32_t, Eigen::Index,
                                     RowMatrix<double>&);

}  // namespace pith::measure

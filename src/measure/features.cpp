#include "measure/features.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace pith::measure {

namespace {

template <class T>
using Map = Eigen::Map<const RowMatrix<T>>;

/// The queries in the order of their buckets: bucket b has b, b + buckets, ..
struct Bucketed {
  std::vector<int> queries;  ///< bucket after bucket
  std::vector<int> signs;    ///< [queries] in that order, random by query
  std::vector<size_t> ends;  ///< [buckets] in `queries`
};

Bucketed bucketed(int queries, int buckets, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> signs(size_t(queries), 0);
  for (int& sign : signs) sign = (random() & 1U) != 0 ? 1 : -1;
  Bucketed out;
  for (int b = 0; b < std::min(buckets, queries); ++b) {
    for (int q = b; q < queries; q += buckets) {
      out.queries.push_back(q);
      out.signs.push_back(signs[size_t(q)]);
    }
    out.ends.push_back(out.queries.size());
  }
  return out;
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

/// to += mass * value - sum_k paid[k] * outputs[k], `lanes` numbers at a time, all of whose sums
/// stay in registers.
template <int lanes, class T>
int add_lanes(std::span<const T> paid, std::span<const T* const> outputs, T mass, const T* value,
              int from, int to, T* out) {
  using Lanes = Eigen::Array<T, lanes, 1>;
  int c = from;
  for (; c + lanes <= to; c += lanes) {
    Lanes sum = mass * Eigen::Map<const Lanes>(value + c);
    for (size_t k = 0; k < paid.size(); ++k)
      sum -= paid[k] * Eigen::Map<const Lanes>(outputs[k] + c);
    Eigen::Map<Lanes>(out + c) += sum;
  }
  return c;
}

// An entry at a time: all of its sums lie together, and the outputs stay in the processor's caches.
template <class T>
void add_features(const Responses<T>& r, T tau, T scale, uint32_t seed, RowMatrix<T>& out) {
  const RowMatrix<T> outputs = outputs_of(r);
  const int d = r.head_dim;
  const Bucketed order = bucketed(r.queries, int(out.cols()) / (d + 1), seed);
  std::vector<const T*> answers;
  answers.reserve(order.queries.size());
  for (const int q : order.queries) answers.push_back(outputs.row(q).data());
  std::vector<T> paid(order.queries.size());
  for (int i = 0; i < r.entries; ++i) {
    const T* alpha = r.alpha.data() + ptrdiff_t{i} * r.queries;
    for (size_t k = 0; k < paid.size(); ++k)
      paid[k] = alpha[order.queries[k]] * T(order.signs[k]) * scale;
    const T* value = r.values.data() + ptrdiff_t{i} * d;
    T* sums = out.row(i).data();
    for (size_t b = 0, first = 0; b < order.ends.size(); first = order.ends[b++], sums += d + 1) {
      const size_t count = order.ends[b] - first;
      const std::span mine(&paid[first], count);
      const T mass = std::accumulate(mine.begin(), mine.end(), T(0));
      const std::span theirs(&answers[first], count);
      const int done = add_lanes<32, T>(mine, theirs, mass, value, 0, d, sums);
      add_lanes<1, T>(mine, theirs, mass, value, done, d, sums);
      sums[d] += mass * tau;
    }
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

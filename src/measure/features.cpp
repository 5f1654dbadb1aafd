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

/// Entries whose sums are made together: they share each load of an output.
constexpr int kTogether = 6;

/// What `count` entries pay to the queries of one bucket.
template <class T>
struct Paid {
  const T* shares[kTogether];  ///< alpha, signed and scaled, for each query of the bucket
  T mass[kTogether];           ///< their sums
  const T* values[kTogether];
  T* sums[kTogether];  ///< what is added to
};

/// sums += mass * value - sum_k shares[k] * outputs[k] of `count` entries, or = where `fresh`,
/// `lanes` numbers at a time, all of which stay in registers. Returns the first number that is
/// left.
template <int count, int lanes, class T>
int add_lanes(const Paid<T>& paid, std::span<const T* const> outputs, int from, int to,
              bool fresh) {
  using Lanes = Eigen::Array<T, lanes, 1>;
  int c = from;
  for (; c + lanes <= to; c += lanes) {
    Lanes sum[count];
    for (int i = 0; i < count; ++i)
      sum[i] = paid.mass[i] * Eigen::Map<const Lanes>(paid.values[i] + c);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Lanes output = Eigen::Map<const Lanes>(outputs[k] + c);
#pragma GCC unroll 8
      for (int i = 0; i < count; ++i) sum[i] -= paid.shares[i][k] * output;
    }
    for (int i = 0; i < count; ++i) {
      Eigen::Map<Lanes> to_change(paid.sums[i] + c);
      if (fresh) {
        to_change = sum[i];
      } else {
        to_change += sum[i];
      }
    }
  }
  return c;
}

/// `count` entries from `first` on, bucket by bucket: all sums of an entry lie together, and the
/// outputs stay in the processor's caches. `shares` is working memory.
template <int count, class T>
void add_entries(const Responses<T>& r, int first, const Bucketed& order,
                 std::span<const T* const> outputs, T tau, T scale, std::vector<T>& shares,
                 RowMatrix<T>& out, bool fresh) {
  const int d = r.head_dim;
  const size_t queries = order.queries.size();
  Paid<T> paid;
  for (int i = 0; i < count; ++i) {
    const T* alpha = r.alpha.data() + ptrdiff_t{first + i} * r.queries;
    T* mine = shares.data() + size_t(i) * queries;
    for (size_t k = 0; k < queries; ++k)
      mine[k] = alpha[order.queries[k]] * T(order.signs[k]) * scale;
    paid.shares[i] = mine;
    paid.values[i] = r.values.data() + ptrdiff_t{first + i} * d;
    paid.sums[i] = out.row(first + i).data();
  }
  for (size_t b = 0, begin = 0; b < order.ends.size(); begin = order.ends[b++]) {
    const size_t size = order.ends[b] - begin;
    for (int i = 0; i < count; ++i) {
      paid.mass[i] = std::accumulate(paid.shares[i], paid.shares[i] + size, T(0));
    }
    const int done = add_lanes<count, 32, T>(paid, outputs.subspan(begin, size), 0, d, fresh);
    add_lanes<count, 1, T>(paid, outputs.subspan(begin, size), done, d, fresh);
    for (int i = 0; i < count; ++i) {
      paid.sums[i][d] = (fresh ? T(0) : paid.sums[i][d]) + paid.mass[i] * tau;
      paid.sums[i] += d + 1;
      paid.shares[i] += size;
    }
  }
}

template <class T>
void add_features(const Responses<T>& r, T tau, T scale, uint32_t seed, RowMatrix<T>& out,
                  bool fresh) {
  const RowMatrix<T> outputs = outputs_of(r);
  const Bucketed order = bucketed(r.queries, int(out.cols()) / (r.head_dim + 1), seed);
  std::vector<const T*> answers;
  answers.reserve(order.queries.size());
  for (const int q : order.queries) answers.push_back(outputs.row(q).data());
  std::vector<T> shares(kTogether * order.queries.size());
  int i = 0;
  for (; i + kTogether <= r.entries; i += kTogether)
    add_entries<kTogether, T>(r, i, order, answers, tau, scale, shares, out, fresh);
  for (; i < r.entries; ++i)
    add_entries<1, T>(r, i, order, answers, tau, scale, shares, out, fresh);
  if (!fresh) return;
  out.bottomRows(out.rows() - r.entries).setZero();
  const auto used = Eigen::Index(order.ends.size()) * (r.head_dim + 1);
  out.topRightCorner(r.entries, out.cols() - used).setZero();
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
                                  RowMatrix<float>&, bool);
template void add_features<double>(const Responses<double>&, double, double, uint32_t,
                                   RowMatrix<double>&, bool);
template void add_gram<float>(const Responses<float>&, float, float, RowMatrix<float>&);
template void add_gram<double>(const Responses<double>&, double, double, RowMatrix<double>&);

}  // namespace pith::measure

#include "measure/features.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/simd.h"

namespace pith::measure {

namespace {

template <class T>
using Map = Eigen::Map<const RowMatrix<T>>;

/// A random sign for each query, times `scale`.
template <class T>
Eigen::Matrix<T, 1, Eigen::Dynamic> signs_of(int queries, T scale, uint32_t seed) {
  std::mt19937 random(seed);
  Eigen::Matrix<T, 1, Eigen::Dynamic> out(queries);
  for (T& sign : out) sign = (random() & 1U) != 0 ? scale : -scale;
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

/// What some entries pay to a part's queries.
template <class T>
struct FeatureMaker<T>::Source {
  const Part* part;
  const T* alpha[kTogether];  // of each entry [queries]
};

template <class T>
FeatureMaker<T>::FeatureMaker(std::span<const Responses<T>> parts, T tau, int buckets)
    : tau_(tau),
      buckets_(buckets),
      head_dim_(parts.front().head_dim),
      mean_output_(Row::Zero(head_dim_)) {
  int queries = 0;
  for (const Responses<T>& r : parts) {
    Part part{&r, outputs_of(r), signs_of(r.queries, r.scale, r.seed)};
    mean_output_ += part.answers.colwise().sum();
    part.answers = (-part.signs).asDiagonal() * part.answers;
    parts_.push_back(std::move(part));
    entries_ = std::max(entries_, r.entries);
    queries += r.queries;
  }
  mean_output_ /= T(std::max(queries, 1));
}

template <class T>
const T* FeatureMaker<T>::values_of(int entry) const {
  return parts_.front().responses->values.data() + ptrdiff_t{entry} * head_dim_;
}

/// The parts that know `count` entries: all of them or none.
template <class T>
std::vector<typename FeatureMaker<T>::Source> FeatureMaker<T>::sources(const int* entries,
                                                                       int count) const {
  std::vector<Source> out;
  for (const Part& part : parts_) {
    const Responses<T>& r = *part.responses;
    if (entries[0] >= r.entries) continue;
    Source source{&part, {}};
    for (int i = 0; i < count; ++i)
      source.alpha[i] = r.alpha.data() + ptrdiff_t{entries[i]} * r.queries;
    out.push_back(source);
  }
  return out;
}

namespace {

/// As many numbers as the processor takes at once.
template <class T>
using Vector [[gnu::vector_size(simd::kWidth * sizeof(float))]] = T;

/// Vectors of an entry that fit the registers, for kTogether entries.
constexpr int kVectors = simd::kWidth == 16 ? 4 : 2;

/// A number or a vector of them.
template <class V>
V load(const auto* at) {
  V out;
  std::memcpy(&out, at, sizeof(V));
  return out;
}

/// out_i = mass_i value_i + sum of alpha_i answer over the queries of a bucket, for `count` entries
/// and the columns from `from` on, `vectors` of V at a time in registers. Returns the first column
/// that is left.
template <int count, int vectors, class V, class T, class Sources>
int make_columns(const Sources& sources, int bucket, int buckets, const T* mass,
                 const T* const* values, int head_dim, int from, T* out, ptrdiff_t stride) {
  constexpr int kLanes = int(sizeof(V)) / int(sizeof(T));
  int c = from;
  for (; c + vectors * kLanes <= head_dim; c += vectors * kLanes) {
    V sum[count][vectors], answer[vectors];
    for (int i = 0; i < count; ++i) {
      for (int v = 0; v < vectors; ++v) sum[i][v] = mass[i] * load<V>(values[i] + c + v * kLanes);
    }
    for (const auto& source : sources) {
      const auto& answers = source.part->answers;
      for (int q = bucket; q < answers.rows(); q += buckets) {
        const T* at = answers.data() + ptrdiff_t{q} * head_dim + c;
        for (int v = 0; v < vectors; ++v) answer[v] = load<V>(at + v * kLanes);
        for (int i = 0; i < count; ++i) {
          for (int v = 0; v < vectors; ++v) sum[i][v] += source.alpha[i][q] * answer[v];
        }
      }
    }
    for (int i = 0; i < count; ++i) {
      for (int v = 0; v < vectors; ++v)
        std::memcpy(out + i * stride + c + v * kLanes, &sum[i][v], sizeof(V));
    }
  }
  return c;
}

}  // namespace

template <class T>
template <int count>
void FeatureMaker<T>::make_entries(const int* entries, T* out, ptrdiff_t stride) const {
  const auto from = sources(entries, count);
  const T* values[count];
  for (int i = 0; i < count; ++i) values[i] = values_of(entries[i]);
  // What an entry pays to each bucket, signed and scaled.
  Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic> mass(buckets_, count);
  mass.setZero();
  for (const Source& source : from) {
    const auto& signs = source.part->signs;
    for (int q = 0; q < signs.cols(); q += buckets_) {
      const int width = std::min(buckets_, int(signs.cols()) - q);
      const auto sign = signs.segment(q, width).transpose().array();
      for (int i = 0; i < count; ++i) {
        const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> paid(source.alpha[i] + q, width);
        mass.col(i).head(width) += sign * paid;
      }
    }
  }
  for (int b = 0; b < buckets_; ++b, out += head_dim_ + 1) {
    T mine[count];
    for (int i = 0; i < count; ++i) mine[i] = mass(b, i);
    int done = make_columns<count, kVectors, Vector<T>>(from, b, buckets_, mine, values, head_dim_,
                                                        0, out, stride);
    done = make_columns<count, 1, Vector<T>>(from, b, buckets_, mine, values, head_dim_, done, out,
                                             stride);
    make_columns<count, 1, T>(from, b, buckets_, mine, values, head_dim_, done, out, stride);
    for (int i = 0; i < count; ++i) out[i * stride + head_dim_] = mine[i] * tau_;
  }
}

template <class T>
void FeatureMaker<T>::make(std::span<const int> entries, T* out, ptrdiff_t stride) const {
  // Where a part ends among the entries, they are made one by one.
  const auto cut = [&](const int* some) {
    return std::ranges::any_of(parts_, [&](const Part& part) {
      const int end = part.responses->entries;
      return some[0] < end && some[kTogether - 1] >= end;
    });
  };
  for (size_t i = 0; i < entries.size(); out += stride) {
    const int* some = entries.data() + i;
    if (i + kTogether <= entries.size() && !cut(some)) {
      make_entries<kTogether>(some, out, stride);
      out += (kTogether - 1) * stride;
      i += kTogether;
    } else {
      make_entries<1>(some, out, stride);
      ++i;
    }
  }
}

template <class T>
typename FeatureMaker<T>::Summary FeatureMaker<T>::summary() const {
  Summary out{Row::Zero(width()), std::vector<T>(size_t(entries_))};
  const Map<T> values(values_of(0), entries_, head_dim_);
  const Row distances =
      (values.rowwise() - mean_output_).rowwise().squaredNorm().transpose().array() + tau_ * tau_;
  for (const auto& [r, answers, signs] : parts_) {
    Row mass = Row::Zero(r->queries);  // that each query pays
    const Map<T> alpha(r->alpha.data(), r->entries, r->queries);
    for (int i = 0; i < r->entries; ++i) {
      mass += alpha.row(i);
      out.sizes[size_t(i)] += r->scale * r->scale * distances[i] * alpha.row(i).squaredNorm();
    }
    // sum_i alpha_qi (v_i - o_q) = o_q - others_q - mass_q o_q
    for (int q = 0; q < r->queries; ++q) {
      auto to = out.total.segment(Eigen::Index{q % buckets_} * (head_dim_ + 1), head_dim_ + 1);
      to.head(head_dim_) -= (1 - mass[q]) * answers.row(q);
      if (!r->others.empty()) {
        to.head(head_dim_) -= signs[q] * Map<T>(r->others.data(), r->queries, head_dim_).row(q);
      }
      to[head_dim_] += signs[q] * tau_ * mass[q];
    }
  }
  return out;
}

template <class T>
void add_features(std::span<const Responses<T>> parts, T tau, RowMatrix<T>& out) {
  if (parts.empty()) return;
  const FeatureMaker<T> maker(parts, tau, int(out.cols()) / (parts.front().head_dim + 1));
  constexpr int kStep = FeatureMaker<T>::kTogether;
  RowMatrix<T> some(kStep, maker.width());
  std::vector<int> entries(kStep);
  for (int i = 0; i < maker.entries(); i += kStep) {
    entries.resize(size_t(std::min(kStep, maker.entries() - i)));
    std::iota(entries.begin(), entries.end(), i);
    maker.make(entries, some.data(), some.cols());
    const auto count = Eigen::Index(entries.size());
    out.block(i, 0, count, some.cols()) += some.topRows(count);
  }
}

template <class T>
void add_gram(const Responses<T>& r, T tau, RowMatrix<T>& out) {
  const Map<T> values(r.values.data(), r.entries, r.head_dim);
  const RowMatrix<T> outputs = outputs_of(r);
  const RowMatrix<T> paid = r.scale * Map<T>(r.alpha.data(), r.entries, r.queries);
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
template class FeatureMaker<float>;
template class FeatureMaker<double>;
template void add_features<float>(std::span<const Responses<float>>, float, RowMatrix<float>&);
template void add_features<double>(std::span<const Responses<double>>, double, RowMatrix<double>&);
template void add_gram<float>(const Responses<float>&, float, RowMatrix<float>&);
template void add_gram<double>(const Responses<double>&, double, RowMatrix<double>&);

}  // namespace pith::measure

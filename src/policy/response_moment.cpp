#include "policy/response_moment.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "measure/risk.h"

namespace pith {

namespace {

/// 1 - w of every entry.
Eigen::VectorXf missing(const RowPlan& plan, int entries) {
  Eigen::VectorXf out = Eigen::VectorXf::Ones(entries);
  for (size_t k = 0; k < plan.keep.size(); ++k) {
    out[plan.keep[k]] = plan.log_weight.empty() ? 0 : 1 - std::exp(plan.log_weight[k]);
  }
  return out;
}

/// Adds scale^2 times the attention of all queries to each entry.
void add_mass(const measure::Responses<float>& r, std::vector<double>& mass) {
  for (int i = 0; i < r.entries; ++i) {
    const auto paid = r.alpha.subspan(size_t(i) * size_t(r.queries), size_t(r.queries));
    mass[size_t(i)] += std::accumulate(paid.begin(), paid.end(), 0.0) * double(r.scale) * r.scale;
  }
}

}  // namespace

bool is_sketched(int entries, int head_dim, int buckets) {
  return int64_t{entries} > int64_t{buckets} * (head_dim + 1);
}

ResponseMoment::ResponseMoment(const PolicyContext& context, const Reading& reading, int layer,
                               int head_kv, int buckets) {
  const int n = context.cache.length(layer, head_kv);
  const int head_dim = context.cache.shape().head_dim;
  mass_.resize(size_t(n), 0);
  const bool sketched = is_sketched(n, head_dim, buckets);
  if (sketched) {
    features_ = Features::Zero(n, Eigen::Index{buckets} * (head_dim + 1));
  } else {
    gram_ = Features::Zero(n, n);
  }
  each_response(context, {&reading, 1}, layer, head_kv, [&](auto parts, float tau) {
    for (const auto& part : parts) add_mass(part, mass_);
    if (sketched) return measure::add_features<float>(parts, tau, features_);
    for (const auto& part : parts) measure::add_gram<float>(part, tau, gram_);
  });
}

double ResponseMoment::trace() const {
  const auto trace = double(gram_.size() > 0 ? gram_.trace() : features_.squaredNorm());
  return std::max(trace, 0.0);
}

std::vector<double> ResponseMoment::spectrum() const {
  if (gram_.size() > 0) return measure::spectrum<float>(gram_);
  const Features side = features_.transpose() * features_;
  return measure::spectrum<float>(side);
}

double ResponseMoment::error_of(const RowPlan& plan) const {
  const Eigen::VectorXf gone = missing(plan, entries());
  if (gram_.size() == 0) return double((features_.transpose() * gone).squaredNorm());
  return std::max(0.0, double(gone.dot(gram_ * gone)));
}

double ResponseMoment::evicted_mass(const RowPlan& plan) const {
  std::vector<double> evicted = mass_;
  for (const int32_t entry : plan.keep) evicted[size_t(entry)] = 0;
  return std::accumulate(evicted.begin(), evicted.end(), 0.0);
}

size_t response_moment_bytes(const PolicyContext& context, const Reading& reading, int layer,
                             int head_kv, int buckets) {
  const auto n = size_t(context.cache.length(layer, head_kv));
  const auto d = size_t(context.cache.shape().head_dim);
  const bool sketched = is_sketched(int(n), int(d), buckets);
  const size_t side = sketched ? size_t(buckets) * (d + 1) : n;
  // A moment and, of a batch, products with all entries; then the side in double and twice more
  // while its eigenvalues are found.
  const size_t batch = response_batch_bytes(context, {&reading, 1}, layer, head_kv);
  const size_t held = sizeof(float) * n * (d + side);
  const size_t making = 3 * batch / 2 + (sketched ? 0 : sizeof(float) * 2 * n * n);
  const size_t solving = side * side * (sizeof(float) + 2 * sizeof(double));
  return held + std::max(making, solving);
}

RowPlan whole_row(int length) {
  RowPlan row;
  row.keep.resize(size_t(length));
  std::iota(row.keep.begin(), row.keep.end(), 0);
  return row;
}

}  // namespace pith

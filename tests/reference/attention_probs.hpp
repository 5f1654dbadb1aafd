#pragma once

#include <cmath>
#include <vector>

#include "pith/policy.hpp"

namespace pith::reference {

/// Attention of query head `head` at observation `t` over the entries of its KV head: softmax of
/// scale q.k + log-weight over entries at positions up to the query's own, and over the
/// observation's own keys where it has any, in double; the entries' part of it. Zeros where it sees
/// none.
inline std::vector<double> attention(const PolicyContext& context, int layer, int head, int t) {
  const ModelShape& shape = context.cache.shape();
  const int head_kv = head / shape.group();
  const int d = shape.head_dim;
  const int n = context.cache.length(layer, head_kv);
  std::vector<float> keys(size_t(n) * size_t(d));
  context.cache.keys(layer, head_kv, 0, keys);
  const auto positions = context.cache.positions(layer, head_kv);
  const auto log_weights = context.cache.log_weights(layer, head_kv);
  const float* query = context.seen.query[size_t(layer)].data() +
                       (size_t(t) * size_t(shape.n_head) + size_t(head)) * size_t(d);

  std::vector<double> out(size_t(n), 0.0);
  double highest = -INFINITY;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < d; ++j)
      out[size_t(i)] += double(query[j]) * double(keys[size_t(i * d + j)]);
    out[size_t(i)] *= double(context.weights.attention_scale());
    if (!log_weights.empty()) out[size_t(i)] += double(log_weights[size_t(i)]);
    const bool sees = positions[size_t(i)] <= context.seen.positions[size_t(t)];
    if (!sees) out[size_t(i)] = -INFINITY;
    highest = std::max(highest, out[size_t(i)]);
  }
  std::vector<double> own;
  for (int u = 0; u <= t && !context.seen.own_keys.empty(); ++u) {
    const size_t m = context.seen.positions.size();
    const float* key =
        context.seen.own_keys[size_t(layer)].data() + (size_t(head_kv) * m + size_t(u)) * size_t(d);
    double logit = 0;
    for (int j = 0; j < d; ++j) logit += double(query[j]) * double(key[j]);
    own.push_back(logit * double(context.weights.attention_scale()));
    highest = std::max(highest, own.back());
  }
  if (highest == -INFINITY) return std::vector<double>(size_t(n), 0.0);
  double sum = 0;
  for (double& x : out) sum += x = std::exp(x - highest);
  for (const double x : own) sum += std::exp(x - highest);
  for (double& x : out) x /= sum;
  return out;
}

}  // namespace pith::reference

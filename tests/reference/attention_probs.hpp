#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "pith/policy.hpp"

namespace pith::reference {

/// Attention of one query.
struct Attention {
  std::vector<double> entries;  ///< to the cache's entries
  std::vector<double> own;      ///< to the observation's own keys up to the query's
};

/// Attention of query head `head` at observation `t` over the entries of its KV head: softmax of
/// scale q.k + log-weight over entries at positions up to the query's own, and over the
/// observation's own keys where it has any, in double. Zeros where it sees none.
inline Attention whole_attention(const PolicyContext& context, int layer, int head, int t) {
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
  if (highest == -INFINITY) return {std::vector<double>(size_t(n), 0.0), {}};
  double sum = 0;
  for (double& x : out) sum += x = std::exp(x - highest);
  for (double& x : own) sum += x = std::exp(x - highest);
  for (double& x : out) x /= sum;
  for (double& x : own) x /= sum;
  return {out, own};
}

/// The entries' part of it.
inline std::vector<double> attention(const PolicyContext& context, int layer, int head, int t) {
  return whole_attention(context, layer, head, t).entries;
}

/// What the observation's own values add to the head's output [head_dim].
inline std::vector<double> own_output(const PolicyContext& context, int layer, int head, int t) {
  const ModelShape& shape = context.cache.shape();
  const auto own = whole_attention(context, layer, head, t).own;
  const size_t first = size_t(head / shape.group()) * context.seen.positions.size();
  std::vector<double> out(size_t(shape.head_dim), 0.0);
  for (size_t u = 0; u < own.size(); ++u) {
    for (size_t j = 0; j < out.size(); ++j) {
      const size_t at = (first + u) * out.size() + j;
      out[j] += own[u] * double(context.seen.own_values[size_t(layer)][at]);
    }
  }
  return out;
}

/// The prompt's queries that Source::future asks, as an observation at the positions ahead: each
/// pair of numbers as a complex one, first turned back to position 0, then to its new position.
inline Observation future(const PolicyContext& context) {
  const ModelShape& shape = context.cache.shape();
  const Observation& prompt = *context.prompt;
  const int n = int(prompt.positions.size()), from = n / 8, m = std::min(128, n - from);
  Observation out;
  out.query.resize(size_t(shape.n_layer));
  for (int j = 0; j < m; ++j) {
    const int place = m == 1 ? from : from + j * (n - 1 - from) / (m - 1);
    const double back = prompt.positions[size_t(place)],
                 to = context.cache.next_position() + 16 + j;
    out.positions.push_back(int32_t(to));
    for (int row = 0; row < shape.n_layer * shape.n_head; ++row) {
      const int il = row / shape.n_head;
      const Rotation rotation = context.weights.rotation(il);
      const size_t pairs = rotation.frequency.size(), d = size_t(shape.head_dim);
      const size_t at = (size_t(place) * size_t(shape.n_head) + size_t(row % shape.n_head)) * d;
      std::vector<float> query(prompt.query[size_t(il)].begin() + ptrdiff_t(at),
                               prompt.query[size_t(il)].begin() + ptrdiff_t(at + d));
      for (size_t pair = 0; pair < pairs; ++pair) {
        float& a = query[rotation.neighbours ? 2 * pair : pair];
        float& b = query[rotation.neighbours ? 2 * pair + 1 : pair + pairs];
        const auto frequency = double(rotation.frequency[pair]);
        const std::complex<double> born(a, b);
        const auto turned =
            born * std::polar(1.0, -back * frequency) * std::polar(1.0, to * frequency);
        a = float(turned.real());
        b = float(turned.imag());
      }
      auto& layer = out.query[size_t(il)];
      layer.insert(layer.end(), query.begin(), query.end());
    }
  }
  return out;
}

}  // namespace pith::reference

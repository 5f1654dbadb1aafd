#pragma once

#include <cmath>
#include <vector>

#include "behavior/mask.h"

namespace pith::reference {

/// Everything that the logit-shift estimate of one prompt reads, in plain arrays; every (layer, KV
/// head) has the same entries.
struct BehaviorCase {
  int n_layer = 0, n_head = 0, n_head_kv = 0, head_dim = 0, n_embd = 0;
  int positions = 0, entries = 0, rank = 0;
  std::vector<double> alpha;    ///< [n_layer, n_head, positions, entries]
  std::vector<double> values;   ///< [n_layer, n_head_kv, entries, head_dim]
  std::vector<double> w_o;      ///< [n_layer, n_embd, n_head * head_dim]
  std::vector<double> readout;  ///< [positions, rank, n_embd]
  std::vector<double> p;        ///< [positions, rank], used with Objective::kl

  int row(int layer, int head) const { return layer * n_head_kv + head / (n_head / n_head_kv); }
  double attention(int layer, int head, int t, int i) const {
    return alpha[size_t(((layer * n_head + head) * positions + t) * entries + i)];
  }
  double value(int layer, int head, int i, int c) const {
    return values[size_t((row(layer, head) * entries + i) * head_dim + c)];
  }
};

/// Softmax attention of the last `m` of `n` positions over all of them, causally.
/// q [n_layer, n_head, m, d], k [n_layer, n_head_kv, n, d]; returns [n_layer, n_head, m, n].
inline std::vector<double> causal_attention(const std::vector<double>& q,
                                            const std::vector<double>& k, int n_layer, int n_head,
                                            int n_head_kv, int m, int n, int d) {
  std::vector<double> alpha;
  for (int lh = 0; lh < n_layer * n_head; ++lh) {
    const int row = lh / (n_head / n_head_kv);
    for (int t = 0; t < m; ++t) {
      std::vector<double> a(size_t(n), 0.0);
      double sum = 0;
      for (int i = 0; i <= n - m + t; ++i) {
        double dot = 0;
        for (int c = 0; c < d; ++c)
          dot += q[size_t((lh * m + t) * d + c)] * k[size_t((row * n + i) * d + c)];
        sum += a[size_t(i)] = std::exp(dot / std::sqrt(double(d)));
      }
      for (const double x : a) alpha.push_back(x / sum);
    }
  }
  return alpha;
}

/// evicted[(layer * n_head_kv + head_kv) * entries + i].
using Evicted = std::vector<bool>;

/// Smallest attention mass left at any query head and position.
inline double least_retained(const BehaviorCase& c, const Evicted& evicted) {
  double least = 1;
  for (int layer = 0; layer < c.n_layer; ++layer) {
    for (int head = 0; head < c.n_head; ++head) {
      for (int t = 0; t < c.positions; ++t) {
        double kept = 1;
        for (int i = 0; i < c.entries; ++i) {
          if (evicted[size_t(c.row(layer, head) * c.entries + i)])
            kept -= c.attention(layer, head, t, i);
        }
        least = std::min(least, kept);
      }
    }
  }
  return least;
}

/// readout W_O dO of one query head at one position: [rank].
inline std::vector<double> head_share(const BehaviorCase& c, const Evicted& evicted, int layer,
                                      int head, int t) {
  const int d = c.head_dim;
  double mass = 0;
  std::vector<double> o(size_t(d), 0.0), removed(size_t(d), 0.0);
  for (int i = 0; i < c.entries; ++i) {
    const double a = c.attention(layer, head, t, i);
    const bool gone = evicted[size_t(c.row(layer, head) * c.entries + i)];
    if (gone) mass += a;
    for (int j = 0; j < d; ++j) {
      o[size_t(j)] += a * c.value(layer, head, i, j);
      if (gone) removed[size_t(j)] += a * c.value(layer, head, i, j);
    }
  }
  std::vector<double> share(size_t(c.rank), 0.0);
  for (int x = 0; x < c.n_embd; ++x) {
    double dx = 0;
    for (int j = 0; j < d; ++j) {
      const size_t at = size_t((layer * c.n_embd + x) * c.n_head * d + head * d + j);
      dx += c.w_o[at] * (mass * o[size_t(j)] - removed[size_t(j)]) / (1 - mass);
    }
    for (int s = 0; s < c.rank; ++s)
      share[size_t(s)] += c.readout[size_t((t * c.rank + s) * c.n_embd + x)] * dx;
  }
  return share;
}

inline double half_square(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += 0.5 * x * x;
  return sum;
}

inline double log_sum_exp_kl(const double* p, const std::vector<double>& dz) {
  double sum = 0, mean = 0;
  for (size_t j = 0; j < dz.size(); ++j) {
    sum += p[j] * std::exp(dz[j]);
    mean += p[j] * dz[j];
  }
  return std::log(sum) - mean;
}

/// Mean over positions of the objective for a set of evictions.
inline double mask_cost(const BehaviorCase& c, const Evicted& evicted,
                        behavior::Objective objective) {
  using behavior::Objective;
  double cost = 0;
  for (int t = 0; t < c.positions; ++t) {
    std::vector<double> total(size_t(c.rank), 0.0);
    for (int layer = 0; layer < c.n_layer; ++layer) {
      std::vector<double> of_layer(size_t(c.rank), 0.0);
      for (int head = 0; head < c.n_head; ++head) {
        const auto share = head_share(c, evicted, layer, head, t);
        for (size_t s = 0; s < share.size(); ++s) of_layer[s] += share[s];
        if (objective == Objective::head) cost += half_square(share);
      }
      for (size_t s = 0; s < total.size(); ++s) total[s] += of_layer[s];
      if (objective == Objective::layer) cost += half_square(of_layer);
    }
    if (objective == Objective::total) cost += half_square(total);
    if (objective == Objective::kl) cost += log_sum_exp_kl(&c.p[size_t(t * c.rank)], total);
  }
  return cost / c.positions;
}

}  // namespace pith::reference

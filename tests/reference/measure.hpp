#pragma once

#include <cmath>
#include <vector>

/// The slow, obvious versions of the measure's pieces, by entries of dense matrices.
namespace pith::reference {

/// One head: attention [entries][queries], values and outputs by row.
struct MeasureCase {
  int entries = 0, queries = 0, head_dim = 0;
  std::vector<double> alpha;   // [entries, queries]
  std::vector<double> values;  // [entries, head_dim]
  double tau = 0;

  double output(int query, int dim) const {
    double o = 0;
    for (int i = 0; i < entries; ++i) {
      o += alpha[size_t(i * queries + query)] * values[size_t(i * head_dim + dim)];
    }
    return o;
  }

  /// G_ij = mean over queries of alpha_i alpha_j [(v_i - o).(v_j - o) + tau^2].
  double gram(int i, int j) const {
    double sum = 0;
    for (int q = 0; q < queries; ++q) {
      double dot = tau * tau;
      for (int d = 0; d < head_dim; ++d) {
        const double o = output(q, d);
        dot += (values[size_t(i * head_dim + d)] - o) * (values[size_t(j * head_dim + d)] - o);
      }
      sum += alpha[size_t(i * queries + q)] * alpha[size_t(j * queries + q)] * dot;
    }
    return sum / queries;
  }

  /// Mean squared error of the attention with multipliers w, by definition.
  double attention_error(const std::vector<double>& w) const {
    double sum = 0;
    for (int q = 0; q < queries; ++q) {
      double mass = 0;
      std::vector<double> o(size_t(head_dim), 0);
      for (int i = 0; i < entries; ++i) {
        const double a = w[size_t(i)] * alpha[size_t(i * queries + q)];
        mass += a;
        for (int d = 0; d < head_dim; ++d) o[size_t(d)] += a * values[size_t(i * head_dim + d)];
      }
      for (int d = 0; d < head_dim; ++d) {
        const double off = o[size_t(d)] / mass - output(q, d);
        sum += off * off;
      }
    }
    return sum / queries;
  }
};

}  // namespace pith::reference

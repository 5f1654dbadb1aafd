#pragma once

#include <cmath>
#include <vector>

#include "behavior/norm_jacobian.h"

namespace pith::reference {

using Doubles = std::vector<double>;

struct Norm {
  behavior::NormKind kind = behavior::NormKind::none;
  Doubles gain = {};
  double eps = 0;
};

inline Doubles normed(const Norm& norm, Doubles x) {
  using behavior::NormKind;
  if (norm.kind == NormKind::none) return x;
  const double n = double(x.size());
  double mean = 0, squares = 0;
  for (const double v : x) mean += v / n;
  for (double& v : x) v -= norm.kind == NormKind::layer ? mean : 0;
  for (const double v : x) squares += v * v / n;
  for (size_t i = 0; i < x.size(); ++i) x[i] *= norm.gain[i] / std::sqrt(squares + norm.eps);
  return x;
}

/// One position of a model of one layer without MLP: attention of `n_head` query heads that read
/// one KV head, and what follows it.
struct OneLayer {
  int n_head = 0, head_dim = 0, n_embd = 0, n_vocab = 0, entries = 0;
  Doubles alpha = {};   ///< [entries, n_head]
  Doubles values = {};  ///< [entries, head_dim]
  Doubles w_o = {};     ///< [n_embd, n_head * head_dim]
  Doubles w_u = {};     ///< [n_vocab, n_embd]
  Doubles before = {};  ///< [n_embd] the residual stream before attention
  Norm post_attention = {}, final = {};
  double scale = 1;    ///< of the logits
  double softcap = 0;  ///< of the scaled logits; 0: none

  /// W_O of the heads' outputs, attention renormalised over the entries that stay.
  Doubles attention(const std::vector<bool>& evicted) const {
    Doubles out(size_t(n_embd), 0.0);
    for (int h = 0; h < n_head; ++h) {
      double mass = 0;
      Doubles o(size_t(head_dim), 0.0);
      for (int i = 0; i < entries; ++i) {
        if (evicted[size_t(i)]) continue;
        const double a = alpha[size_t(i * n_head + h)];
        mass += a;
        for (int c = 0; c < head_dim; ++c) o[size_t(c)] += a * values[size_t(i * head_dim + c)];
      }
      for (int x = 0; x < n_embd; ++x) {
        for (int c = 0; c < head_dim; ++c) {
          const size_t at = size_t((x * n_head + h) * head_dim + c);
          out[size_t(x)] += w_o[at] * o[size_t(c)] / mass;
        }
      }
    }
    return out;
  }

  /// The state before the final norm.
  Doubles state(const std::vector<bool>& evicted) const {
    Doubles x = normed(post_attention, attention(evicted));
    for (size_t i = 0; i < x.size(); ++i) x[i] += before[i];
    return x;
  }

  Doubles logits(const std::vector<bool>& evicted) const {
    const Doubles y = normed(final, state(evicted));
    Doubles z;
    for (int token = 0; token < n_vocab; ++token) {
      double sum = 0;
      for (int x = 0; x < n_embd; ++x) sum += w_u[size_t(token * n_embd + x)] * y[size_t(x)];
      z.push_back(softcap > 0 ? softcap * std::tanh(scale * sum / softcap) : scale * sum);
    }
    return z;
  }
};

}  // namespace pith::reference

#include "base/divergence.h"

#include <algorithm>
#include <cmath>

namespace pith {

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - max);
  return max + std::log(sum);
}

double kl_divergence(std::span<const float> p, double p_norm, std::span<const float> q,
                     double q_norm) {
  double kl = 0;
  for (size_t v = 0; v < p.size(); ++v) {
    const double log_p = double(p[v]) - p_norm;
    const double mass = std::exp(log_p);
    if (mass > 0) kl += mass * (log_p - (double(q[v]) - q_norm));
  }
  return kl;
}

}  // namespace pith

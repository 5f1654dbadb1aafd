#include "eval/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/argmax.h"
#include "base/divergence.h"

namespace pith {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kResamples = 10000;

}  // namespace

PredictionChange compare_logits(std::span<const float> full, std::span<const float> compressed,
                                std::optional<int32_t> next_token) {
  const double full_norm = log_sum_exp(full);
  const double compressed_norm = log_sum_exp(compressed);
  PredictionChange change;
  change.kl = kl_divergence(full, full_norm, compressed, compressed_norm);
  change.same_top = argmax(full) == argmax(compressed);
  if (next_token) {
    const double log_p = double(full[size_t(*next_token)]) - full_norm;
    const double log_q = double(compressed[size_t(*next_token)]) - compressed_norm;
    change.dnll = log_p - log_q;
    change.dp = std::exp(log_q) - std::exp(log_p);
  }
  return change;
}

double mean(std::span<const double> values) {
  if (values.empty()) return kNan;
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double standard_error(std::span<const double> values) {
  if (values.size() < 2) return values.empty() ? kNan : 0;
  const double center = mean(values);
  double squares = 0;
  for (const double x : values) squares += (x - center) * (x - center);
  const auto n = double(values.size());
  return std::sqrt(squares / (n - 1) / n);
}

double quantile(std::span<const double> values, double q) {
  if (values.empty()) return kNan;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double at = q * double(sorted.size() - 1);
  const auto below = size_t(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

Ratio paired_ratio(std::span<const double> numerator, std::span<const double> denominator) {
  Ratio ratio{mean(numerator) / mean(denominator), kNan, kNan};
  if (numerator.size() < 2) return ratio;
  std::mt19937_64 random(1);
  std::vector<double> sampled(kResamples);
  for (double& value : sampled) {
    double top = 0, bottom = 0;
    for (size_t i = 0; i < numerator.size(); ++i) {
      const size_t pick = random() % numerator.size();
      top += numerator[pick];
      bottom += denominator[pick];
    }
    value = top / bottom;
  }
  ratio.lo = quantile(sampled, 0.025);
  ratio.hi = quantile(sampled, 0.975);
  return ratio;
}

}  // namespace pith

#include "behavior/logit_metric.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pith::behavior {

template <class T>
std::vector<int32_t> top_tokens(std::span<const T> logits, int count) {
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto kept = std::min<std::ptrdiff_t>(count, std::ssize(tokens));
  std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(), [&](int32_t a, int32_t b) {
    const T la = logits[size_t(a)], lb = logits[size_t(b)];
    return la != lb ? la > lb : a < b;
  });
  tokens.resize(size_t(kept));
  return tokens;
}

template <class T>
std::vector<double> probabilities(std::span<const T> logits, std::span<const int32_t> tokens) {
  std::vector<double> p;
  p.reserve(tokens.size());
  for (const int32_t token : tokens) p.push_back(double(logits[size_t(token)]));
  const double largest = *std::max_element(p.begin(), p.end());
  for (double& v : p) v = std::exp(v - largest);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

double logit_slope(double logit, double scale, double softcap) {
  const double height = softcap > 0 ? logit / softcap : 0;
  return scale * (1 - height * height);
}

double kl_of_shift(std::span<const double> p, std::span<const double> shift) {
  const double mean = std::inner_product(p.begin(), p.end(), shift.begin(), 0.0);
  const double largest = *std::max_element(shift.begin(), shift.end()) - mean;
  double sum = 0;
  // exp would overflow, and the precision of expm1 is of no use, where a shift is large.
  if (largest > 1) {
    for (size_t j = 0; j < p.size(); ++j) sum += p[j] * std::exp(shift[j] - mean - largest);
    return largest + std::log(sum);
  }
  for (size_t j = 0; j < p.size(); ++j) sum += p[j] * std::expm1(shift[j] - mean);
  return std::log1p(sum);
}

template std::vector<int32_t> top_tokens<float>(std::span<const float>, int);
template std::vector<int32_t> top_tokens<double>(std::span<const double>, int);
template std::vector<double> probabilities<float>(std::span<const float>, std::span<const int32_t>);
template std::vector<double> probabilities<double>(std::span<const double>,
                                                   std::span<const int32_t>);

}  // namespace pith::behavior

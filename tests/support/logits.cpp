#include "support/logits.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace pith::test {
namespace {

double log_sum_exp(std::span<const float> row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(x - top);
  return top + std::log(sum);
}

}  // namespace

double nmse(std::span<const float> a, std::span<const float> b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return error / norm;
}

double mean_kl(std::span<const float> a, std::span<const float> b, size_t width) {
  double total = 0;
  for (size_t at = 0; at < b.size(); at += width) {
    const auto p = b.subspan(at, width), q = a.subspan(at, width);
    const double zp = log_sum_exp(p), zq = log_sum_exp(q);
    for (size_t v = 0; v < width; ++v) {
      total += std::exp(p[v] - zp) * ((p[v] - zp) - (q[v] - zq));
    }
  }
  return total / (double(b.size()) / double(width));
}

int argmax(std::span<const float> row) {
  return int(std::max_element(row.begin(), row.end()) - row.begin());
}

float top_gap(std::span<const float> row) {
  std::vector<float> sorted(row.begin(), row.end());
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return sorted[0] - sorted[1];
}

std::vector<int32_t> random_tokens(int count, int n_vocab, uint32_t seed, int first) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(first + int32_t(random() % uint32_t(n_vocab - first)));
  }
  return tokens;
}

}  // namespace pith::test

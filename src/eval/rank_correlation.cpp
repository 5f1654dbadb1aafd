#include "eval/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pith {
namespace {

std::vector<size_t> ascending(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  return order;
}

}  // namespace

std::vector<double> average_ranks(std::span<const double> values) {
  const std::vector<size_t> order = ascending(values);
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = double(first + 1 + end) / 2;
    first = end;
  }
  return ranks;
}

double spearman(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = average_ranks(a), y = average_ranks(b);
  const double centre = double(a.size() + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double dx = x[i] - centre, dy = y[i] - centre;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

std::vector<double> percentile_bins(std::span<const double> key, std::span<const double> values,
                                    int bins) {
  const std::vector<size_t> order = ascending(key);
  const size_t n = order.size(), count = size_t(bins);
  std::vector<double> out;
  for (size_t b = 0; b < count; ++b) {
    const size_t first = b * n / count, end = (b + 1) * n / count;
    double sum = 0;
    for (size_t i = first; i < end; ++i) sum += values[order[i]];
    out.push_back(sum / double(end - first));
  }
  return out;
}

}  // namespace pith

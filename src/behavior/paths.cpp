#include "behavior/paths.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace pith::behavior {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Running maximum within each run of equal halvings.
std::vector<float> running_maximum(const std::vector<Step<float>>& order) {
  std::vector<float> out;
  out.reserve(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const bool follows = i > 0 && order[i].halvings == order[i - 1].halvings;
    out.push_back(follows ? std::max(std::nextafter(out.back(), kInfinity), order[i].rise)
                          : order[i].rise);
  }
  return out;
}

struct LateStep {
  int halvings;
  float worth;
  size_t order, step;
  auto key() const { return std::tie(halvings, worth, order, step); }
};

}  // namespace

std::vector<std::vector<float>> path_scores(std::span<const std::vector<Step<float>>> orders) {
  std::vector<std::vector<float>> scores;
  std::vector<LateStep> late;
  float highest = 0;
  for (size_t order = 0; order < orders.size(); ++order) {
    scores.push_back(running_maximum(orders[order]));
    for (size_t i = 0; i < scores[order].size(); ++i) {
      const int halvings = orders[order][i].halvings;
      if (halvings > 0) {
        late.push_back({halvings, scores[order][i], order, i});
      } else {
        highest = std::max(highest, scores[order][i]);
      }
    }
  }
  std::sort(late.begin(), late.end(),
            [](const LateStep& a, const LateStep& b) { return a.key() < b.key(); });
  for (const LateStep& step : late) {
    highest = std::nextafter(highest, kInfinity);
    scores[step.order][step.step] = highest;
  }
  return scores;
}

}  // namespace pith::behavior

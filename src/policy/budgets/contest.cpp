#include "policy/budgets/contest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

namespace pith {

namespace {

struct Candidate {
  float score;
  int32_t position;
  int row;
};

/// Higher score first, then the newer position, then the lower layer and head.
bool goes_first(const Candidate& a, const Candidate& b) {
  return std::tie(b.score, b.position, a.row) < std::tie(a.score, a.position, b.row);
}

/// The entries of a row that compete: the eligible ones less its best, which fill `least`.
void add_candidates(const Scores& scores, const PolicyContext& context, int row, int least,
                    std::vector<Candidate>& out) {
  const ModelShape& shape = context.cache.shape();
  const auto positions = context.cache.positions(row / shape.n_head_kv, row % shape.n_head_kv);
  const auto eligible = eligible_entries(context, row);
  const auto first = std::ptrdiff_t(out.size());
  for (int i = eligible.first; i < eligible.last; ++i) {
    out.push_back({scores.rows[size_t(row)][size_t(i)], positions[size_t(i)], row});
  }
  const int guarded = int(positions.size()) - eligible.count();
  const int safe = std::clamp(least - guarded, 0, eligible.count());
  const auto begin = out.begin() + first;
  if (safe < eligible.count()) std::nth_element(begin, begin + safe, out.end(), goes_first);
  out.erase(begin, begin + safe);
}

/// weights[row] * level within the row's limits.
double share_at(double level, double weight, int least, int most) {
  return std::clamp(level * weight, double(least), double(most));
}

}  // namespace

void contest(const Scores& scores, const PolicyContext& context, std::span<const int> rows,
             std::span<const int> least, int64_t total, std::vector<int>& quotas) {
  std::vector<Candidate> candidates;
  int64_t contested = total;
  for (const int row : rows) {
    add_candidates(scores, context, row, least[size_t(row)], candidates);
    quotas[size_t(row)] += least[size_t(row)];
    contested -= least[size_t(row)];
  }
  const auto winners = candidates.begin() + std::min(contested, int64_t(candidates.size()));
  std::nth_element(candidates.begin(), winners, candidates.end(), goes_first);
  std::for_each(candidates.begin(), winners, [&](const auto& won) { ++quotas[size_t(won.row)]; });
}

std::vector<int> floors(const RowLimits& limits, std::span<const int> equal, double part) {
  std::vector<int> least = limits.least;
  for (size_t row = 0; row < least.size(); ++row) {
    least[row] = std::max(least[row], int(part * equal[row]));
  }
  return least;
}

Knob floor_knob(const std::string& value) {
  return {.name = "floor",
          .value = value,
          .min = 0,
          .max = 1,
          .choices = {},
          .help = "part of an equal share that every head keeps whatever it scores"};
}

std::vector<int> proportional_quotas(std::span<const double> weights, std::span<const int> least,
                                     std::span<const int> most, int64_t total) {
  const size_t n = weights.size();
  const auto shares = [&](double level) {
    std::vector<double> out(n);
    for (size_t r = 0; r < n; ++r) out[r] = share_at(level, weights[r], least[r], most[r]);
    return out;
  };
  // The level at which the shares sum to the total, by halving: the sum rises with the level.
  double low = 0, high = 1;
  const auto sum_at = [&](double level) {
    const auto s = shares(level);
    return std::accumulate(s.begin(), s.end(), 0.0);
  };
  for (int i = 0; i < 64 && sum_at(high) < double(total); ++i) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (sum_at(middle) < double(total) ? low : high) = middle;
  }
  const auto exact = shares(high);
  std::vector<int> quotas(n);
  for (size_t r = 0; r < n; ++r) quotas[r] = int(std::floor(exact[r] + 1e-9));
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return exact[a] - quotas[a] > exact[b] - quotas[b]; });
  int64_t left = total - std::accumulate(quotas.begin(), quotas.end(), int64_t{0});
  for (bool moved = true; left != 0 && moved;) {
    moved = false;
    for (const size_t r : order) {
      const int step = left > 0 ? 1 : -1;
      if (left == 0 || quotas[r] + step > most[r] || quotas[r] + step < least[r]) continue;
      quotas[r] += step;
      left -= step;
      moved = true;
    }
  }
  return quotas;
}

std::vector<int> quotas_above_least(std::span<const double> weights, const RowLimits& limits,
                                    std::span<const int> room, int64_t total) {
  const std::vector<int> none(room.size(), 0);
  auto quotas = proportional_quotas(weights, none, room, total - limits.least_total);
  std::transform(quotas.begin(), quotas.end(), limits.least.begin(), quotas.begin(), std::plus<>());
  return quotas;
}

}  // namespace pith

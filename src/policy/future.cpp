#include "policy/future.h"

#include <algorithm>

namespace pith {
namespace {

constexpr int64_t kFutureQueries = 128;

}  // namespace

std::vector<int32_t> future_positions(int32_t n) {
  const int64_t from = n / 8, last = int64_t{n} - 1, count = std::min(kFutureQueries, n - from);
  std::vector<int32_t> out;
  out.reserve(size_t(std::max<int64_t>(0, count)));
  for (int64_t j = 0; j < count; ++j) {
    out.push_back(int32_t(from + j * (last - from) / std::max<int64_t>(1, count - 1)));
  }
  return out;
}

std::vector<int> nearest_places(std::span<const int32_t> observed,
                                std::span<const int32_t> wanted) {
  std::vector<int> out;
  if (observed.empty()) return out;
  for (const int32_t position : wanted) {
    auto place = std::ranges::lower_bound(observed, position) - observed.begin();
    const bool behind = place == std::ssize(observed);
    if (behind || (place > 0 &&
                   position - observed[size_t(place - 1)] <= observed[size_t(place)] - position)) {
      --place;
    }
    if (out.empty() || out.back() != place) out.push_back(int(place));
  }
  return out;
}

}  // namespace pith

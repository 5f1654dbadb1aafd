#include "session/future_sample.h"

#include <algorithm>

#include "policy/future.h"

namespace pith {
namespace {

constexpr int32_t kGrid = 256;

/// The parts of an observation of queries at `places`.
Observation parts_at(const Observation& seen, const std::vector<int>& places) {
  Observation out;
  for (const int place : places) out.positions.push_back(seen.positions[size_t(place)]);
  for (const auto& layer : seen.query) {
    const auto width = ptrdiff_t(layer.size() / seen.positions.size());
    auto& rows = out.query.emplace_back();
    rows.reserve(places.size() * size_t(width));
    for (const int place : places) {
      rows.insert(rows.end(), layer.begin() + place * width, layer.begin() + (place + 1) * width);
    }
  }
  return out;
}

}  // namespace

std::vector<int32_t> sample_positions(int32_t n) {
  int32_t stride = 1;
  while ((n - 1) / stride >= kGrid) stride *= 2;
  const std::vector<int32_t> asked = future_positions(n);
  std::vector<int32_t> grid, out;
  for (int32_t position = 0; position < n; position += stride) grid.push_back(position);
  std::ranges::set_union(asked, grid, std::back_inserter(out));
  return out;
}

std::vector<int32_t> rows_among(const std::vector<int32_t>& wanted, int32_t first, int32_t count) {
  std::vector<int32_t> out;
  for (auto at = std::ranges::lower_bound(wanted, first); at != wanted.end() && *at < first + count;
       ++at) {
    out.push_back(*at - first);
  }
  return out;
}

void FutureSample::begin(int32_t position) {
  if (end == position) return;
  seen = {};
  first = end = position;
}

void FutureSample::thin(const std::vector<int32_t>& wanted) {
  seen = parts_at(seen, nearest_places(seen.positions, wanted));
}

void FutureSample::trim(int32_t position) {
  if (position >= end) return;
  end = position;
  if (first >= end) {
    *this = {};
    return;
  }
  std::vector<int> stay;
  for (int i = 0; i < int(seen.positions.size()) && seen.positions[size_t(i)] < position; ++i) {
    stay.push_back(i);
  }
  seen = parts_at(seen, stay);
}

}  // namespace pith

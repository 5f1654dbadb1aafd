#include "policy/smoothing.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace pith {

void pool(std::span<const float> in, int kernel, Pooling pooling, bool zeros_count,
          std::span<float> out) {
  const auto n = ptrdiff_t(in.size());
  const ptrdiff_t half = kernel / 2;
  for (ptrdiff_t i = 0; i < n; ++i) {
    const auto first = in.begin() + std::max<ptrdiff_t>(0, i - half);
    const auto last = in.begin() + std::min(n, i + half + 1);
    const auto count = float(zeros_count ? kernel : last - first);
    out[size_t(i)] = pooling == Pooling::max ? *std::max_element(first, last)
                                             : std::accumulate(first, last, 0.0F) / count;
  }
}

}  // namespace pith

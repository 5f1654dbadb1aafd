#include "bandwidth.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "base/timer.h"

namespace pith::tools {

double memory_bandwidth(int threads) {
  constexpr size_t kWords = size_t{32} << 20;  // 256 MiB
  constexpr int kPasses = 5;
  const std::vector<uint64_t> buffer(kWords, 1);
  std::vector<uint64_t> sums(size_t(threads), 0);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Timer timer;
    parallel_for(threads, threads, [&](int t) {
      const auto first = buffer.begin() + int64_t(kWords * size_t(t) / size_t(threads));
      const auto last = buffer.begin() + int64_t(kWords * size_t(t + 1) / size_t(threads));
      sums[size_t(t)] = std::accumulate(first, last, uint64_t{0});
    });
    // A use of the sums, so that the reads cannot be left out.
    if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == kWords) {
      best = std::max(best, double(kWords * sizeof(uint64_t)) / timer.seconds());
    }
  }
  return best;
}

}  // namespace pith::tools

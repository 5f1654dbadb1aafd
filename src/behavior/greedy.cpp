#include "behavior/greedy.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/parallel.h"

namespace pith::behavior {
namespace {

template <class T>
struct Priced {
  Candidate candidate;
  T rise = 0;

  /// Cheaper first; the older entry on ties.
  bool operator<(const Priced& other) const {
    if (rise != other.rise) return rise < other.rise;
    if (candidate.entry != other.candidate.entry) return candidate.entry < other.candidate.entry;
    return candidate.group < other.candidate.group;
  }
};

template <class T>
void price(const Mask<T>& mask, std::vector<Priced<T>>& priced, double eps, int threads) {
  constexpr int kChunk = 256;
  const int count = int(priced.size());
  parallel_for((count + kChunk - 1) / kChunk, threads, [&](int chunk) {
    typename Mask<T>::Scratch scratch;
    for (int i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      Priced<T>& p = priced[size_t(i)];
      p.rise = mask.rise(p.candidate.group, p.candidate.entry, T(eps), scratch);
    }
  });
}

template <class T>
std::vector<Priced<T>> unpriced(const std::vector<Candidate>& candidates) {
  std::vector<Priced<T>> all;
  all.reserve(candidates.size());
  for (const Candidate& candidate : candidates) all.push_back({candidate, T(0)});
  return all;
}

/// Evicts what one round allows and appends it to `steps`. `left` is priced and loses it.
template <class T>
using Round = void (*)(Mask<T>& mask, std::vector<Priced<T>>& left, double eps,
                       const GreedyOptions& options, std::vector<Step<T>>& steps);

/// Rounds until enough is evicted. What is out at this eps is set aside, and comes back with half
/// of it where nothing else is left.
template <class T>
std::vector<Step<T>> run(Mask<T>& mask, const std::vector<Candidate>& candidates,
                         const GreedyOptions& options, Round<T> round) {
  std::vector<Step<T>> steps;
  std::vector<Priced<T>> left = unpriced<T>(candidates), out;
  for (int halvings = 0; halvings <= options.max_halvings; ++halvings) {
    const double eps = std::ldexp(options.eps, -halvings);
    const size_t first = steps.size();
    while (!left.empty() && int(steps.size()) < options.evictions) {
      price(mask, left, eps, options.threads);
      const auto stable = std::partition(left.begin(), left.end(),
                                         [](const auto& p) { return std::isfinite(p.rise); });
      out.insert(out.end(), stable, left.end());
      left.erase(stable, left.end());
      if (!left.empty()) round(mask, left, eps, options, steps);
    }
    for (size_t i = first; i < steps.size(); ++i) steps[i].halvings = halvings;
    left.swap(out);
  }
  return steps;
}

template <class T>
void evict_cheapest(Mask<T>& mask, std::vector<Priced<T>>& left, double /*eps*/,
                    const GreedyOptions& /*options*/, std::vector<Step<T>>& steps) {
  const auto best = std::min_element(left.begin(), left.end());
  mask.evict(best->candidate.group, best->candidate.entry);
  steps.push_back({best->candidate, best->rise});
  left.erase(best);
}

template <class T>
void recheck_round(Mask<T>& mask, std::vector<Priced<T>>& left, double eps,
                   const GreedyOptions& options, std::vector<Step<T>>& steps) {
  const auto dearer = [](const Priced<T>& a, const Priced<T>& b) { return b < a; };
  std::make_heap(left.begin(), left.end(), dearer);
  const size_t needed = std::min(size_t(options.evictions) - steps.size(), left.size());
  const size_t end = steps.size() + std::max<size_t>(1, size_t(options.share * double(needed)));
  typename Mask<T>::Scratch scratch;
  // Where more has to be re-checked than there is, pricing all anew tells more.
  for (size_t checks = left.size(); checks > 0 && steps.size() < end; --checks) {
    std::pop_heap(left.begin(), left.end(), dearer);
    Priced<T>& p = left.back();
    p.rise = mask.rise(p.candidate.group, p.candidate.entry, T(eps), scratch);
    if (left.size() > 1 && left.front() < p) {
      std::push_heap(left.begin(), left.end(), dearer);
      continue;
    }
    if (!std::isfinite(p.rise)) break;
    mask.evict(p.candidate.group, p.candidate.entry);
    steps.push_back({p.candidate, p.rise});
    left.pop_back();
  }
}

}  // namespace

template <class T>
std::vector<Step<T>> evict_exactly(Mask<T>& mask, const std::vector<Candidate>& candidates,
                                   const GreedyOptions& options) {
  return run<T>(mask, candidates, options, evict_cheapest<T>);
}

template <class T>
std::vector<Step<T>> evict_with_recheck(Mask<T>& mask, const std::vector<Candidate>& candidates,
                                        const GreedyOptions& options) {
  return run<T>(mask, candidates, options, recheck_round<T>);
}

template <class T>
std::vector<Step<T>> cheapest(const Mask<T>& mask, const std::vector<Candidate>& candidates,
                              int count, int threads) {
  constexpr double kNothingLeft = 1e-6;
  std::vector<Priced<T>> priced = unpriced<T>(candidates);
  price(mask, priced, kNothingLeft, threads);
  const auto end = priced.begin() + std::min<std::ptrdiff_t>(count, std::ssize(priced));
  std::partial_sort(priced.begin(), end, priced.end());
  std::vector<Step<T>> steps;
  for (auto p = priced.begin(); p != end; ++p) steps.push_back({p->candidate, p->rise});
  return steps;
}

template std::vector<Step<float>> evict_exactly(Mask<float>&, const std::vector<Candidate>&,
                                                const GreedyOptions&);
template std::vector<Step<float>> evict_with_recheck(Mask<float>&, const std::vector<Candidate>&,
                                                     const GreedyOptions&);
template std::vector<Step<float>> cheapest(const Mask<float>&, const std::vector<Candidate>&, int,
                                           int);
template std::vector<Step<double>> evict_exactly(Mask<double>&, const std::vector<Candidate>&,
                                                 const GreedyOptions&);
template std::vector<Step<double>> evict_with_recheck(Mask<double>&, const std::vector<Candidate>&,
                                                      const GreedyOptions&);
template std::vector<Step<double>> cheapest(const Mask<double>&, const std::vector<Candidate>&, int,
                                            int);

}  // namespace pith::behavior

#include "behavior/greedy.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/parallel.h"

namespace pith::behavior {
namespace {

/// An exchange that leaves more of the cost than this is not worth another of its size.
constexpr double kWorthwhile = 0.99;

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

/// The two moves: an entry goes, and an evicted one comes back.
template <class T>
struct Evict {
  static T rise(const Mask<T>& mask, const Candidate& c, double eps, auto& scratch) {
    return mask.rise(c.group, c.entry, T(eps), scratch);
  }
  static void make(Mask<T>& mask, const Candidate& c) { mask.evict(c.group, c.entry); }
};

template <class T>
struct Restore {
  static T rise(const Mask<T>& mask, const Candidate& c, double /*eps*/, auto& scratch) {
    return -mask.fall(c.group, c.entry, scratch);
  }
  static void make(Mask<T>& mask, const Candidate& c) { mask.restore(c.group, c.entry); }
};

template <class Move, class T>
void price(const Mask<T>& mask, std::vector<Priced<T>>& priced, double eps, int threads) {
  constexpr int kChunk = 256;
  const int count = int(priced.size());
  parallel_for((count + kChunk - 1) / kChunk, threads, [&](int chunk) {
    typename Mask<T>::Scratch scratch;
    for (int i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      Priced<T>& p = priced[size_t(i)];
      p.rise = Move::rise(mask, p.candidate, eps, scratch);
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
      price<Evict<T>>(mask, left, eps, options.threads);
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
std::vector<Candidate> candidates_of(const std::vector<Step<T>>& steps) {
  std::vector<Candidate> out(steps.size());
  std::transform(steps.begin(), steps.end(), out.begin(), [](const auto& s) { return s.evicted; });
  return out;
}

/// What of `all` is not evicted by `steps`; `candidate_of` says which candidate an element is.
template <class T, class Element>
std::vector<Element> difference(std::vector<Element> all, const std::vector<Step<T>>& steps,
                                auto candidate_of) {
  auto these = candidates_of(steps);
  std::sort(these.begin(), these.end());
  std::erase_if(all, [&](const Element& element) {
    return std::binary_search(these.begin(), these.end(), candidate_of(element));
  });
  return all;
}

/// Makes up to `count` moves, the cheapest first by rises found anew. `left` is priced and loses
/// them.
template <class Move, class T>
void move_cheapest(Mask<T>& mask, std::vector<Priced<T>>& left, double eps, size_t count,
                   std::vector<Step<T>>& steps) {
  const auto dearer = [](const Priced<T>& a, const Priced<T>& b) { return b < a; };
  std::make_heap(left.begin(), left.end(), dearer);
  const size_t end = steps.size() + count;
  typename Mask<T>::Scratch scratch;
  // Where more has to be re-checked than there is, pricing all anew tells more.
  for (size_t checks = left.size(); checks > 0 && steps.size() < end; --checks) {
    std::pop_heap(left.begin(), left.end(), dearer);
    Priced<T>& p = left.back();
    p.rise = Move::rise(mask, p.candidate, eps, scratch);
    if (left.size() > 1 && left.front() < p) {
      std::push_heap(left.begin(), left.end(), dearer);
      continue;
    }
    if (!std::isfinite(p.rise)) break;
    Move::make(mask, p.candidate);
    steps.push_back({p.candidate, p.rise});
    left.pop_back();
  }
}

template <class T>
void recheck_round(Mask<T>& mask, std::vector<Priced<T>>& left, double eps,
                   const GreedyOptions& options, std::vector<Step<T>>& steps) {
  const size_t needed = std::min(size_t(options.evictions) - steps.size(), left.size());
  const size_t count = std::max<size_t>(1, size_t(options.share * double(needed)));
  move_cheapest<Evict<T>>(mask, left, eps, count, steps);
}

/// `steps` after the `count` evictions whose return takes most off the cost have come back, and as
/// many of the candidates, the cheapest then, have gone.
template <class T>
std::vector<Step<T>> exchanged(Mask<T>& mask, const std::vector<Candidate>& candidates,
                               const std::vector<Step<T>>& steps, size_t count,
                               const GreedyOptions& options) {
  const int halvings = steps.back().halvings;
  const double eps = std::ldexp(options.eps, -halvings);
  std::vector<Priced<T>> gone = unpriced<T>(candidates_of(steps));
  price<Restore<T>>(mask, gone, eps, options.threads);
  std::vector<Step<T>> back;
  move_cheapest<Restore<T>>(mask, gone, eps, count, back);
  auto out = difference(steps, back, [](const Step<T>& step) { return step.evicted; });

  const size_t first = out.size();
  std::vector<Priced<T>> left = unpriced<T>(not_among(candidates, out));
  price<Evict<T>>(mask, left, eps, options.threads);
  move_cheapest<Evict<T>>(mask, left, eps, back.size(), out);
  for (size_t i = first; i < out.size(); ++i) out[i].halvings = halvings;
  return out;
}

}  // namespace

template <class T>
std::vector<Candidate> not_among(const std::vector<Candidate>& all,
                                 const std::vector<Step<T>>& steps) {
  return difference(all, steps, [](const Candidate& candidate) { return candidate; });
}

template <class T>
void exchange(Mask<T>& mask, const std::vector<Candidate>& candidates, std::vector<Step<T>>& steps,
              const GreedyOptions& options) {
  for (size_t count = steps.size() / 8; count > 0;) {
    Mask<T> tried = mask;
    auto changed = exchanged(tried, candidates, steps, count, options);
    if (changed.size() == steps.size() && tried.cost() < kWorthwhile * mask.cost()) {
      mask = std::move(tried);
      steps = std::move(changed);
    } else {
      count /= 2;
    }
  }
}

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
  price<Evict<T>>(mask, priced, kNothingLeft, threads);
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
template void exchange(Mask<float>&, const std::vector<Candidate>&, std::vector<Step<float>>&,
                       const GreedyOptions&);
template void exchange(Mask<double>&, const std::vector<Candidate>&, std::vector<Step<double>>&,
                       const GreedyOptions&);
template std::vector<Candidate> not_among(const std::vector<Candidate>&,
                                          const std::vector<Step<float>>&);
template std::vector<Candidate> not_among(const std::vector<Candidate>&,
                                          const std::vector<Step<double>>&);
template std::vector<Step<float>> cheapest(const Mask<float>&, const std::vector<Candidate>&, int,
                                           int);
template std::vector<Step<double>> evict_exactly(Mask<double>&, const std::vector<Candidate>&,
                                                 const GreedyOptions&);
template std::vector<Step<double>> evict_with_recheck(Mask<double>&, const std::vector<Candidate>&,
                                                      const GreedyOptions&);
template std::vector<Step<double>> cheapest(const Mask<double>&, const std::vector<Candidate>&, int,
                                            int);

}  // namespace pith::behavior

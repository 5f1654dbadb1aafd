#pragma once

#include <limits>
#include <vector>

#include "behavior/mask.h"

namespace pith::behavior {

/// An entry that may be evicted; entries of a group are numbered in position order.
struct Candidate {
  int group = 0, entry = 0;
  bool operator==(const Candidate&) const = default;
};

/// One eviction of a greedy order.
template <class T>
struct Step {
  Candidate evicted;
  T rise = 0;        ///< what it added to the cost
  int halvings = 0;  ///< how often eps had been halved by then
};

struct GreedyOptions {
  int evictions = std::numeric_limits<int>::max();  ///< stop after so many
  double eps = 0.05;     ///< attention mass that must stay at every (query head, position)
  int max_halvings = 0;  ///< of eps, each time nothing can be evicted any more
  double share = 0.15;   ///< of the remaining candidates that a round of re-checks may evict
  int threads = 1;
};

/// The exact greedy: one eviction at a time, each the candidate that raises the cost least under
/// the current mask (the older entry on ties). A candidate that would leave less than eps is out
/// for good. Returns the order; fewer steps than asked where the rest is out.
template <class T>
std::vector<Step<T>> evict_exactly(Mask<T>& mask, const std::vector<Candidate>& candidates,
                                   const GreedyOptions& options);

/// The greedy by rounds: every round finds all rises and the threshold of its cheapest `share`,
/// then walks these in order and evicts each whose rise under the mask *of that moment* is still
/// within the threshold; the others wait for the next round. The same for any number of threads.
template <class T>
std::vector<Step<T>> evict_with_recheck(Mask<T>& mask, const std::vector<Candidate>& candidates,
                                        const GreedyOptions& options);

/// The `count` candidates that would raise the cost least if each went next, cheapest first, with
/// their rises; infinite where no attention would be left. Under an empty mask the costs of single
/// evictions, which is how the paper's first stage makes its pool.
template <class T>
std::vector<Step<T>> cheapest(const Mask<T>& mask, const std::vector<Candidate>& candidates,
                              int count, int threads = 1);

}  // namespace pith::behavior

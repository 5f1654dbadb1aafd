#pragma once

#include <compare>
#include <limits>
#include <vector>

#include "behavior/mask.h"

namespace pith::behavior {

/// An entry that may be evicted; entries of a group are numbered in position order.
struct Candidate {
  int group = 0, entry = 0;
  auto operator<=>(const Candidate&) const = default;
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
  double share = 0.1;    ///< of what is still to go, evicted at most in one round of re-checks
  int threads = 1;
};

/// The exact greedy: one eviction at a time, each the candidate that raises the cost least under
/// the current mask (the older entry on ties). A candidate that would leave less than eps is out
/// for good. Returns the order; fewer steps than asked where the rest is out.
template <class T>
std::vector<Step<T>> evict_exactly(Mask<T>& mask, const std::vector<Candidate>& candidates,
                                   const GreedyOptions& options);

/// The greedy by rounds. A round finds all rises under the mask at its start, then takes the
/// cheapest again and again: its rise is found anew under the mask *of that moment*, and it goes if
/// no other known rise is lower; else it waits with its new rise. No rise that is out of date ever
/// evicts, but one that has fallen since its round began is noticed only in the next. The same for
/// any number of threads.
template <class T>
std::vector<Step<T>> evict_with_recheck(Mask<T>& mask, const std::vector<Candidate>& candidates,
                                        const GreedyOptions& options);

/// Betters a greedy's evictions by exchange, for objectives under which evictions cancel: a part of
/// them comes back, those whose return takes most off the cost, and as many of `candidates` go in
/// their place. Kept where the cost falls by a hundredth; else the part is halved. `mask` holds the
/// evictions of `steps`, which are all of `candidates`; the newer ones stand last in the order.
template <class T>
void exchange(Mask<T>& mask, const std::vector<Candidate>& candidates, std::vector<Step<T>>& steps,
              const GreedyOptions& options);

/// `all` but those that `steps` evict, in their order.
template <class T>
std::vector<Candidate> not_among(const std::vector<Candidate>& all,
                                 const std::vector<Step<T>>& steps);

/// The `count` candidates that would raise the cost least if each went next, cheapest first, with
/// their rises; infinite where no attention would be left. Under an empty mask the costs of single
/// evictions, which is how the paper's first stage makes its pool.
template <class T>
std::vector<Step<T>> cheapest(const Mask<T>& mask, const std::vector<Candidate>& candidates,
                              int count, int threads = 1);

}  // namespace pith::behavior

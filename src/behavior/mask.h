#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "behavior/features.h"

namespace pith::behavior {

/// How the shares of query heads join into the cost of a set of evictions.
enum class Objective {
  head,   ///< 1/2 |share|^2 summed over query heads, nothing cancels
  layer,  ///< 1/2 |sum of a layer's shares|^2 summed over layers
  total,  ///< 1/2 |sum of all shares|^2: the KL's quadratic form
  kl      ///< log-sum-exp KL of the summed logit shifts; the readout is the top-K logit map
};

/// What summed shares [rank, padded(positions)] cost: the mean over positions of 1/2 |share|^2, or
/// of the KL of logit shifts with `kl`, whose top tokens have probabilities `p` [positions, rank].
template <class T>
double cost_of_shares(const Eigen::Array<T, Eigen::Dynamic, 1>& shares, Objective objective,
                      int positions, std::span<const double> p);

/// A set of evicted entries of some groups and what it costs: the mean over scoring positions of
/// the objective, in nats.
template <class T>
class Mask {
 public:
  /// Room for one candidate's shift, reused between calls of rise() and fall(); one a thread.
  using Scratch = Eigen::Array<T, Eigen::Dynamic, 1>;

  /// `groups` (all with the same positions and rank) and, for `kl`, the top tokens' probabilities
  /// `p` [positions, rank] must outlive this.
  Mask(std::span<const GroupFeatures<T>> groups, Objective objective,
       std::span<const double> p = {});

  /// What evicting one more entry adds to the cost; infinity where attention mass under `eps` would
  /// be left at any (query head, position). Every eviction so far must have left at least `eps`.
  T rise(int group, int entry, T eps, Scratch& scratch) const;
  void evict(int group, int entry);

  /// What taking an evicted entry back takes off the cost; below 0 where it adds to it.
  T fall(int group, int entry, Scratch& scratch) const;
  void restore(int group, int entry);

  double cost() const;
  /// Smallest attention mass left at any (query head, position).
  double least_retained() const;

 private:
  using Values = Eigen::Array<T, Eigen::Dynamic, 1>;

  struct Group {
    const GroupFeatures<T>* features;
    int cell;         // of cells_, where its shares are added
    Values retained;  // r = 1 - M [heads * lanes]
    Values mean;      // b = C (o - R) / r, what the kept entries give [rank * heads * lanes]
  };

  // An entry goes with sign 1 and comes back with -1: its attention leaves or joins what is kept.
  T change(int group, int entry, T sign, Scratch& scratch) const;
  void move(int group, int entry, T sign);
  T head_change(const Group& group, int entry, T sign) const;
  void join_heads(const Group& group, int entry, T sign, Scratch& shift) const;
  double cost_of(const Values& joined) const;

  Objective objective_;
  int positions_, rank_, lanes_;
  std::span<const double> p_;
  std::vector<Group> groups_;
  std::vector<Values> cells_;  // summed shares y [rank, lanes]; with `head` [rank, heads * lanes]
};

}  // namespace pith::behavior

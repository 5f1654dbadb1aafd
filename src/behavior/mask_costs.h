#pragma once

#include <span>
#include <vector>

#include "behavior/mask.h"

namespace pith::behavior {

/// What many masks cost, each given whole: for each the cost() of a Mask that evicted all that it
/// does not keep. Computed from what is kept (mean of the kept values less the output, which is the
/// deletion counterfactual), so that little attention left takes no digits away. Groups are added
/// one at a time and need not be in memory together.
template <class T>
class MaskCosts {
 public:
  /// `p` as Mask takes it; it must outlive this.
  MaskCosts(int masks, Objective objective, std::span<const double> p = {});

  /// `keep` is [masks, entries], 1 where a mask keeps the entry and 0 where not. All groups have
  /// the same positions and rank. The same for any number of threads.
  void add(const GroupFeatures<T>& group, const RowMatrix<T>& keep, int threads = 1);

  /// [masks], nats.
  std::vector<double> costs() const;

 private:
  Objective objective_;
  std::span<const double> p_;
  int positions_ = 0;
  std::vector<double> head_costs_;  // [masks], with `head`
  // Shares summed over heads, of each layer or of all of them [masks, rank * lanes]; not with
  // `head`.
  std::vector<RowMatrix<T>> joined_;
};

}  // namespace pith::behavior

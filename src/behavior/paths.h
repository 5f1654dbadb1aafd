#pragma once

#include <span>
#include <vector>

#include "behavior/greedy.h"

namespace pith::behavior {

/// One scale of worth for the greedy orders of groups that do not depend on each other: taking the
/// lowest scores over all orders evicts a prefix of each, and every prefix ends where its rises
/// pass a common threshold.
///
/// A step's score is the running maximum of the rises along its order, made strictly increasing.
/// Steps with more halvings of eps follow all those with fewer, whatever their rise: with them a
/// budget is met by halving eps only as often as it must be. Returns [orders][steps], finite.
std::vector<std::vector<float>> path_scores(std::span<const std::vector<Step<float>>> orders);

}  // namespace pith::behavior

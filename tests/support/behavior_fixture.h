#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "behavior/features.h"
#include "behavior/greedy.h"
#include "reference/behavior.hpp"

namespace pith::test {

/// data/behavior.json: a two-layer case with costs, masks and exact greedy orders in float64.
class BehaviorFixture {
 public:
  BehaviorFixture();

  const nlohmann::json& json() const { return json_; }
  /// The case of an objective: the untruncated quadratic form, or the logit map with `kl`.
  const reference::BehaviorCase& of(behavior::Objective objective) const {
    return objective == behavior::Objective::kl ? logits_ : form_;
  }
  /// Top tokens of each position.
  const std::vector<std::vector<int32_t>>& top() const { return top_; }

  /// Entries that are neither sinks nor in the window, group by group.
  std::vector<behavior::Candidate> candidates() const;

 private:
  nlohmann::json json_;
  reference::BehaviorCase form_, logits_;
  std::vector<std::vector<int32_t>> top_;
};

/// Features of every (layer, KV head) of a case.
template <class T>
std::vector<behavior::GroupFeatures<T>> features_of(const reference::BehaviorCase& c);

/// The name of an objective in the fixture.
const char* fixture_name(behavior::Objective objective);

}  // namespace pith::test

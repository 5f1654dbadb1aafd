#pragma once

#include "measure/reducers.h"
#include "policy/policy.h"
#include "policy/protection.h"

namespace pith {

/// A wrapper that makes of each (layer, KV head)'s eligible entries a smaller measure of as many
/// entries as the policy gives it. The score only says, by the budget rule, how many these are.
class ReducingWrapper : public Wrapper {
 public:
  explicit ReducingWrapper(uint64_t seed = 0) : seed_(seed) {}

  bool weighs() const override { return true; }
  void refine(Plan& plan, const Scores& scores, const PolicyContext& context) const override;

  static Knob seed_knob();
  static uint64_t seed_of(const KnobValues& knobs) { return uint64_t(knobs.integer("seed")); }

 protected:
  /// One head: `count` < eligible.count() of its entries, numbered from the first eligible one.
  struct Task {
    const PolicyContext& context;
    int layer, head_kv;
    Eligible eligible;
    int count;
    measure::Random random;
  };

  virtual measure::Support reduce(Task& task) const = 0;
  /// Working memory of that.
  virtual size_t bytes(const PolicyContext& context, int layer, int head_kv) const = 0;

 private:
  uint64_t seed_;
};

/// Where entries lie, for reducers that know no queries: keys about their mean and half the values,
/// each over its root mean square [eligible, 2 head_dim]. Softmax does not see where keys are
/// centred, but the measure does.
measure::RowMatrix<double> key_value_points(const PolicyContext& context, int layer, int head_kv,
                                            const Eligible& eligible);
size_t key_value_bytes(const PolicyContext& context, int layer, int head_kv);

/// What each eligible entry stands for already: exp of its log-weight.
std::vector<double> masses_of(const PolicyContext& context, int layer, int head_kv,
                              const Eligible& eligible);

}  // namespace pith

#pragma once

#include "measure/reducers.h"
#include "policy/policy.h"
#include "policy/protection.h"
#include "policy/wrappers/weighting.h"

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

 private:
  virtual measure::Support reduce(Task& task) const = 0;
  /// Working memory of that.
  virtual size_t bytes(const PolicyContext& context, int layer, int head_kv) const = 0;

  uint64_t seed_;
};

/// For reducers that know no queries: where a head's entries lie and what each stands for.
class PointReducingWrapper : public ReducingWrapper {
 public:
  using ReducingWrapper::ReducingWrapper;

 protected:
  /// Keys about their mean and half the values, each over its root mean square [eligible, 2
  /// head_dim]. Softmax does not see where keys are centred, but the measure does.
  static measure::RowMatrix<double> points(const Task& task);
  /// Exp of the entries' log-weights [eligible].
  static std::vector<double> masses(const Task& task);

 private:
  size_t bytes(const PolicyContext& context, int layer, int head_kv) const override;
};

/// For reducers that serve queries: the response profiles of a head's entries.
class QueryReducingWrapper : public ReducingWrapper {
 public:
  explicit QueryReducingWrapper(const KnobValues& knobs)
      : ReducingWrapper(seed_of(knobs)), queries_(knobs) {}

  Needs needs() const override { return queries_.needs(); }

 protected:
  measure::RowMatrix<double> features(const Task& task) const;

 private:
  size_t bytes(const PolicyContext& context, int layer, int head_kv) const override;

  ServedQueries queries_;
};

}  // namespace pith

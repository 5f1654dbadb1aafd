#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/policy.hpp"

namespace pith {

struct SpecPart;

/// A parameter of a policy. A number unless `choices` are given.
struct Knob {
  std::string name;
  std::string value;  ///< default, as written in a spec
  double min = 0, max = 0;
  bool integer = false;
  std::vector<std::string> choices;
  std::string help;
};

/// The knobs of one part of a spec with their values; every knob of the row has one.
class KnobValues {
 public:
  double number(const std::string& name) const;
  int integer(const std::string& name) const;
  const std::string& choice(const std::string& name) const;
  void set(const std::string& name, const std::string& value) { values_[name] = value; }

 private:
  std::map<std::string, std::string> values_;
};

/// Score axis: the worth of every entry.
class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual Scores score(const PolicyContext& context) const = 0;
  virtual Needs needs() const { return {}; }
  /// What evicting all that a mask does not keep is thought to do, for each of `masks`: the lower
  /// the better, on a scale of the method's own. `scores` are what score() gave for this context;
  /// unless the method has a cost of a whole set, the sum of the worth of all evicted entries,
  /// counted from the least one where that is negative.
  virtual std::vector<double> mask_costs(std::span<const Plan> masks, const Scores& scores,
                                         const PolicyContext& context) const;
};

/// What goes around a score: each of these steps may change what comes out of the one before.
class Wrapper {
 public:
  virtual ~Wrapper() = default;
  virtual Needs needs() const { return {}; }
  /// Scores before the budget is shared out.
  virtual void rescore(Scores&, const PolicyContext&) const {}
  /// Scores once it is known how many entries each (layer, KV head) keeps [n_rows]; the order
  /// within a row decides which.
  virtual void rerank(Scores&, std::span<const int> /*quotas*/, const PolicyContext&) const {}
  /// What is kept, as chosen by the reranked scores, and its log-weights; the number of entries of
  /// each (layer, KV head) stays.
  virtual void refine(Plan&, const Scores&, const PolicyContext&) const {}
  /// Whether refine() gives log-weights, which take their bytes.
  virtual bool weighs() const { return false; }
};

/// Budget axis: how many entries each (layer, KV head) keeps.
class BudgetRule {
 public:
  virtual ~BudgetRule() = default;
  /// [n_rows]; sums to context.keep_total; each between the protected entries and the row's length.
  virtual std::vector<int> quotas(const Scores& scores, const PolicyContext& context) const = 0;
  virtual Needs needs() const { return {}; }
};

/// One method of the score axis: everything that help, documentation, checks and tests need.
struct ScoreRow {
  std::string name;
  std::string summary;      ///< one line
  std::string paper;        ///< where it comes from
  std::string formula;      ///< the score in plain text
  std::string differences;  ///< from the published method; empty where none
  std::string budget;       ///< name of the budget rule it uses unless the spec says otherwise
  std::vector<Knob> knobs;
  std::unique_ptr<Scorer> (*make)(const KnobValues&);
  bool draws_at_random = false;  ///< every eligible entry of a row is as likely to be kept
  bool attention = false;        ///< made of attention: never negative
};

/// "prefill", or "prefill, generation", by what the score reads.
std::string phases_of(const ScoreRow& row);

/// One wrapper.
struct WrapperRow {
  std::string name;
  std::string summary;
  std::string paper;
  std::string formula;
  std::string differences;
  std::vector<Knob> knobs;
  std::unique_ptr<Wrapper> (*make)(const KnobValues&);
  /// Why it makes no sense around this score; empty where it does. Null: around any.
  std::string (*refuses)(const ScoreRow&) = nullptr;
  bool reselects = false;  ///< what stays does not go by the scores alone
};

/// One rule of the budget axis.
struct BudgetRow {
  std::string name;
  std::string summary;
  std::string paper;
  std::vector<Knob> knobs;
  std::unique_ptr<BudgetRule> (*make)(const KnobValues&);
};

/// A name for a whole spec that is good to start from.
struct PresetRow {
  std::string name;
  std::string summary;
  std::string spec;
};

/// The registry: adding a method is one file in policies/ and one row here.
std::span<const ScoreRow> score_rows();
std::span<const BudgetRow> budget_rows();
std::span<const WrapperRow> wrapper_rows();
std::span<const PresetRow> preset_rows();

/// A spec string made into a policy: score, wrappers, budget rule. `full` keeps everything.
class Policy {
 public:
  /// Grammar: name[(knob=value,...)][+part[(knob=value,...)]]...; a part is a wrapper, applied in
  /// the order written, or the budget rule. The name of a preset stands for its spec. Throws
  /// Error(usage) with the nearest known name for an unknown policy, part or knob, with the allowed
  /// range for a bad value, and with the reason for parts that do not go together.
  static Policy parse(std::string_view spec);

  /// The spec with all defaults written out; parses to the same policy.
  const std::string& spec() const { return spec_; }
  const ScoreRow& row() const { return *row_; }
  /// True for `full`: nothing is ever evicted, whatever the budget.
  bool keeps_all() const { return scorer_ == nullptr; }
  Needs needs() const;
  /// Whether its plans carry log-weights.
  bool weighs() const;
  /// Whether it can run while tokens are generated: from the last positions and the cache alone.
  bool in_generation() const {
    const Needs need = needs();
    return !need.prompt && !need.future && !need.repeat && need.lookahead == 0;
  }

  /// The score as the wrappers leave it.
  Scores score(const PolicyContext& context) const;
  /// The plan for these scores: quotas by the budget rule, then per row the protected entries and
  /// the best of the rest; ties go to the newer position.
  Plan select(const Scores& scores, const PolicyContext& context) const;
  /// Scorer::mask_costs of these scores; the sum of worths where wrappers changed them. A mask's
  /// log-weights do not count.
  std::vector<double> mask_costs(std::span<const Plan> masks, const Scores& scores,
                                 const PolicyContext& context) const;

 private:
  Policy() = default;
  void add_part(const SpecPart& part);
  /// Part of the progress that score() tells, the rest being what wrappers do in select().
  double scoring_share() const;
  std::string spec_;
  const ScoreRow* row_ = nullptr;
  std::shared_ptr<const Scorer> scorer_;
  std::vector<std::shared_ptr<const Wrapper>> wrappers_;
  std::string rule_spec_;
  std::shared_ptr<const BudgetRule> rule_;
};

/// The plan that keeps `quotas` [n_rows] entries: in each (layer, KV head) the protected ones and
/// the best of the rest; ties go to the newer position.
Plan keep_best(const Scores& scores, std::span<const int> quotas, const PolicyContext& context);

}  // namespace pith

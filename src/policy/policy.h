#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/policy.hpp"

namespace pith {

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
  /// Scoring positions it reads, counted from the end of the prompt; 0 where it needs none.
  virtual int positions() const { return 0; }
};

/// Budget axis: how many entries each (layer, KV head) keeps.
class BudgetRule {
 public:
  virtual ~BudgetRule() = default;
  /// [n_rows]; sums to context.keep_total; each between the protected entries and the row's length.
  virtual std::vector<int> quotas(const Scores& scores, const PolicyContext& context) const = 0;
};

/// One method of the score axis: everything that help, documentation, checks and tests need.
struct ScoreRow {
  std::string name;
  std::string summary;      ///< one line
  std::string paper;        ///< where it comes from
  std::string formula;      ///< the score in plain text
  std::string differences;  ///< from the published method; empty where none
  std::string budget;       ///< name of the budget rule it uses unless the spec says otherwise
  std::string phases;       ///< "prefill"
  std::vector<Knob> knobs;
  std::unique_ptr<Scorer> (*make)(const KnobValues&);
};

/// One rule of the budget axis.
struct BudgetRow {
  std::string name;
  std::string summary;
  std::vector<Knob> knobs;
  std::unique_ptr<BudgetRule> (*make)(const KnobValues&);
};

/// The registry: adding a method is one file in policies/ and one row here.
std::span<const ScoreRow> score_rows();
std::span<const BudgetRow> budget_rows();

/// A spec string made into a policy: score + budget rule. `full` keeps everything.
class Policy {
 public:
  /// Grammar: name[(knob=value,...)][+rule[(knob=value,...)]]. Throws Error(usage) with the nearest
  /// known name for an unknown policy, rule or knob, and with the allowed range for a bad value.
  static Policy parse(std::string_view spec);

  /// The spec with all defaults written out; parses to the same policy.
  const std::string& spec() const { return spec_; }
  const ScoreRow& row() const { return *row_; }
  /// True for `full`: nothing is ever evicted, whatever the budget.
  bool keeps_all() const { return scorer_ == nullptr; }
  int positions() const { return scorer_ ? scorer_->positions() : 0; }

  Scores score(const PolicyContext& context) const { return scorer_->score(context); }
  /// The plan for these scores: quotas by the budget rule, then per row the protected entries and
  /// the best of the rest; ties go to the newer position.
  Plan select(const Scores& scores, const PolicyContext& context) const;

 private:
  Policy() = default;
  std::string spec_;
  const ScoreRow* row_ = nullptr;
  std::shared_ptr<const Scorer> scorer_;
  std::shared_ptr<const BudgetRule> rule_;
};

}  // namespace pith

// Risk of a session's cache under the plans of a policy: The risk of KV cache compression, arXiv
// 2607.01520.

#include "pith/risk.hpp"

#include <algorithm>

#include "measure/risk.h"
#include "policy/abstain.h"
#include "policy/response_moment.h"
#include "policy/score_rows.h"
#include "session/session.h"

namespace pith {
namespace {

constexpr const char* kReader = "the risk";

// Parts of the whole that come before the heads are measured, about.
constexpr double kPasses = 0.3, kPlans = 0.5;

Reading reading_of(RiskQueries queries) {
  switch (queries) {
    case RiskQueries::tail:
      return kTailQueries;
    case RiskQueries::future:
      return kFutureQueries;
    case RiskQueries::repeat:
    case RiskQueries::file:  // is shown as a pass that was run on the prompt, too
      break;
  }
  return kRepeatQueries;
}

/// What the session has to have for the queries; texts are run when they are needed.
Needs query_needs(RiskQueries queries) {
  return queries == RiskQueries::file ? Needs{} : reading_of(queries).needs();
}

[[noreturn]] void wrong_usage(const std::string& what) { throw Error(ErrorCode::usage, what); }

void check(const RiskOptions& asked, const Policy& policy) {
  if (policy.keeps_all()) wrong_usage(policy.spec() + " evicts nothing and risks nothing");
  if (asked.budgets.empty()) wrong_usage("risk is measured at a budget, and there is none");
  if (asked.eigenvalues < 1) wrong_usage("at least 1 eigenvalue is returned");
  if (asked.buckets < 1) wrong_usage("queries are sketched into at least 1 sum");
  if ((asked.queries == RiskQueries::file) != !asked.texts.empty()) {
    wrong_usage("queries of texts need texts, and texts serve nothing else");
  }
  for (const auto& text : asked.texts) {
    if (text.empty()) wrong_usage("a text that is to ask queries is empty");
  }
}

/// Entries that a budget of `kept` of `total` gives to a head of `length`.
int share_of_budget(int64_t kept, int64_t total, int length) {
  return int(std::clamp<int64_t>(kept * length / std::max<int64_t>(1, total), 1, length));
}

/// What is measured of every head.
struct Measuring {
  const RiskOptions& asked;
  std::vector<Plan> plans;    // of each budget
  std::vector<int64_t> kept;  // entries of each budget
  int64_t total = 0;          // entries of the cache
};

HeadRisk head_risk(const ResponseMoment& moment, size_t row, const Measuring& measuring) {
  const std::vector<double> eigenvalues = moment.spectrum();
  HeadRisk out{.entries = moment.entries(), .tr = moment.trace(), .eigenvalues = {}, .at = {}};
  for (size_t b = 0; b < measuring.plans.size(); ++b) {
    const RowPlan& plan = measuring.plans[b].rows[row];
    BudgetRisk at;
    at.entries = share_of_budget(measuring.kept[b], measuring.total, out.entries);
    at.bounds = measure::risk_bounds(eigenvalues, out.tr, at.entries, out.entries);
    const double tail = measure::tail_sum(eigenvalues, at.entries / 3);
    at.tail_share = std::min(1.0, measure::share_of(tail, out.tr));
    at.kept = int(plan.keep.size());
    at.plan_error = measure::share_of(moment.error_of(plan), out.tr);
    at.evicted_mass = moment.evicted_mass(plan);
    out.at.push_back(at);
  }
  const size_t count = std::min(eigenvalues.size(), size_t(measuring.asked.eigenvalues));
  out.eigenvalues.assign(eigenvalues.begin(), eigenvalues.begin() + ptrdiff_t(count));
  return out;
}

void add_new(std::vector<std::string>& notes, const std::string& note) {
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
}

/// Says where the longest row is not measured exactly.
void note_sketch(const PolicyContext& context, int buckets, std::vector<std::string>& notes) {
  const ModelShape& shape = context.cache.shape();
  int longest = 0;
  for (int row = 0; row < shape.n_rows(); ++row) {
    longest = std::max(longest, context.cache.length(row / shape.n_head_kv, row % shape.n_head_kv));
  }
  if (!is_sketched(longest, shape.head_dim, buckets)) return;
  notes.push_back("heads of more than " + std::to_string(buckets * (shape.head_dim + 1)) +
                  " entries: queries sketched into " + std::to_string(buckets) +
                  " random sums, tails somewhat low");
}

std::vector<std::vector<HeadRisk>> all_heads(const PolicyContext& context,
                                             const Measuring& measuring) {
  const ModelShape& shape = context.cache.shape();
  const Reading reading = reading_of(measuring.asked.queries);
  const int buckets = measuring.asked.buckets;
  std::vector<std::vector<HeadRisk>> layers(size_t(shape.n_layer),
                                            std::vector<HeadRisk>(size_t(shape.n_head_kv)));
  const auto bytes = [&](int layer, int head_kv) {
    return response_moment_bytes(context, reading, layer, head_kv, buckets);
  };
  each_row(context, bytes, [&](int layer, int head_kv) {
    const ResponseMoment moment(context, reading, layer, head_kv, buckets);
    layers[size_t(layer)][size_t(head_kv)] =
        head_risk(moment, size_t(shape.row(layer, head_kv)), measuring);
  });
  return layers;
}

}  // namespace

/// The plan that compress() would apply, without abstaining.
Plan SessionImpl::plan_at(const Policy& policy, const Budget& budget, const Progress& progress,
                          std::vector<std::string>& notes) const {
  const ModelShape& shape = model.shape();
  const int64_t keep = kept_by(budget, policy.weighs());
  if (keep < cache.total_entries()) {
    const Protection protection = fit_protection(keep, shape.n_rows(), options.protection);
    Receipt record;
    Plan made = plan(policy, keep, protection, progress, record);
    for (const std::string& note : record.notes) add_new(notes, note);
    return made;
  }
  add_new(notes, "the budget of " + budget.text() + " holds the whole cache");
  Plan whole;
  for (int row = 0; row < shape.n_rows(); ++row) {
    whole.rows.push_back(whole_row(cache.length(row / shape.n_head_kv, row % shape.n_head_kv)));
  }
  return whole;
}

Risk SessionImpl::risk(const RiskOptions& asked, const Progress& progress) {
  const Policy policy = Policy::parse(asked.policy);
  check(asked, policy);
  std::vector<Budget> budgets;
  budgets.reserve(asked.budgets.size());
  for (const std::string& text : asked.budgets) budgets.push_back(Budget::parse(text));
  const int64_t total = cache.total_entries();
  if (total == 0) wrong_usage("there is nothing to measure yet");
  const Needs need = query_needs(asked.queries);
  check_observed(need, kReader);
  check_observed(policy.needs(), "policy " + policy.row().name);
  Risk out{.policy = policy.spec(),
           .budgets = asked.budgets,
           .queries = asked.queries,
           .layers = {},
           .notes = options.notes};
  run_passes(policy.needs() | need, part_of(progress, 0, kPasses / 2));
  const auto texts = run_texts(asked.texts, part_of(progress, kPasses / 2, kPasses));

  Measuring measuring{.asked = asked, .plans = {}, .kept = {}, .total = total};
  const double step = (kPlans - kPasses) / double(budgets.size());
  for (const Budget& budget : budgets) {
    const double from = kPasses + step * double(measuring.plans.size());
    measuring.kept.push_back(std::min(total, kept_by(budget, policy.weighs())));
    measuring.plans.push_back(
        plan_at(policy, budget, part_of(progress, from, from + step), out.notes));
  }
  PolicyInput input = input_for(need, kReader, total, {}, part_of(progress, kPlans, 1));
  if (asked.queries == RiskQueries::file) input.context.repeat = texts;
  note_sketch(input.context, asked.buckets, out.notes);
  out.layers = all_heads(input.context, measuring);
  return out;
}

Needs needs_of(const RiskOptions& options) {
  return needs_of(options.policy) | query_needs(options.queries);
}

Risk measure_risk(Session& session, const RiskOptions& options, const Progress& progress) {
  return session.impl().risk(options, progress);
}

}  // namespace pith

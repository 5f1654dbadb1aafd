#include "policy/policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "policy/knobs.h"
#include "policy/protection.h"
#include "policy/score_rows.h"
#include "policy/spec.h"
#include "policy/text.h"

namespace pith {

namespace {

/// The score of that name; an error names the nearest score or preset.
const ScoreRow& find_score(const std::string& name) {
  std::vector<std::string> names;
  for (const PresetRow& row : preset_rows()) names.push_back(row.name);
  for (const ScoreRow& row : score_rows()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw Error(ErrorCode::usage,
              "unknown policy " + quote(name) + ": did you mean " + nearest(name, names) + "?");
}

/// The wrapper of that name; an error names the nearest wrapper or budget rule.
const WrapperRow& find_part(const std::string& name) {
  std::vector<std::string> names;
  for (const BudgetRow& row : budget_rows()) names.push_back(row.name);
  for (const WrapperRow& row : wrapper_rows()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw Error(ErrorCode::usage, "unknown budget rule or wrapper " + quote(name) +
                                    ": did you mean " + nearest(name, names) + "?");
}

/// The spec with the name of a preset replaced by what it stands for.
Spec expanded(Spec spec) {
  const auto presets = preset_rows();
  const auto preset = std::ranges::find(presets, spec.score.name, &PresetRow::name);
  if (preset == presets.end()) return spec;
  if (!spec.score.arguments.empty()) {
    throw Error(ErrorCode::usage, preset->name + " takes no arguments: it stands for " +
                                      preset->spec + ", which can be written out and changed");
  }
  Spec out = parse_spec(preset->spec);
  out.parts.insert(out.parts.end(), spec.parts.begin(), spec.parts.end());
  return out;
}

[[noreturn]] void bug(const std::string& spec, const std::string& what) {
  throw Error(ErrorCode::internal, spec + ": " + what);
}

void check_scores(const std::string& spec, const Scores& scores, const PolicyContext& context) {
  const ModelShape& shape = context.cache.shape();
  if (scores.rows.size() != size_t(shape.n_rows())) bug(spec, "scores of some heads are missing");
  for (int row = 0; row < shape.n_rows(); ++row) {
    const auto& values = scores.rows[size_t(row)];
    const int length = context.cache.length(row / shape.n_head_kv, row % shape.n_head_kv);
    if (values.size() != size_t(length)) bug(spec, "scores of some entries are missing");
    const auto [first, last] = eligible_entries(context, row);
    if (std::any_of(values.begin() + first, values.begin() + last,
                    [](float score) { return std::isnan(score); })) {
      bug(spec, "a score is not a number in layer " + std::to_string(row / shape.n_head_kv));
    }
  }
}

void check_quotas(const std::string& spec, const std::vector<int>& quotas, const RowLimits& limits,
                  int64_t total) {
  const bool in_limits =
      quotas.size() == limits.most.size() &&
      std::equal(limits.least.begin(), limits.least.end(), quotas.begin(), std::less_equal<>()) &&
      std::equal(quotas.begin(), quotas.end(), limits.most.begin(), std::less_equal<>());
  if (!in_limits || std::accumulate(quotas.begin(), quotas.end(), int64_t{0}) != total) {
    bug(spec, "the budget rule broke its limits");
  }
}

/// The protected entries of a row and the best of the rest, `quota` together, ascending.
std::vector<int32_t> best_entries(const std::vector<float>& scores, const Eligible& eligible,
                                  int quota) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto first = order.begin() + eligible.first;
  const auto last = order.begin() + eligible.last;
  const auto better = [&](int32_t a, int32_t b) {
    const float score_a = scores[size_t(a)];
    const float score_b = scores[size_t(b)];
    return score_a != score_b ? score_a > score_b : a > b;
  };
  const int evicted = int(scores.size()) - quota;
  std::nth_element(first, last - evicted, last, better);
  order.erase(last - evicted, last);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

Policy Policy::parse(std::string_view text) {
  const Spec spec = expanded(parse_spec(text));
  Policy policy;
  policy.row_ = &find_score(spec.score.name);
  const KnobValues knobs = resolve_knobs(policy.row_->knobs, spec.score);
  policy.scorer_ = policy.row_->make(knobs);
  policy.spec_ = spec_text(policy.row_->name, policy.row_->knobs, knobs);
  if (policy.keeps_all()) {
    if (spec.parts.empty()) return policy;
    throw Error(ErrorCode::usage,
                policy.spec_ + " keeps everything and takes no " + quote(spec.parts.front().name));
  }
  for (const SpecPart& part : spec.parts) policy.add_part(part);
  if (!policy.rule_) policy.add_part({.name = policy.row_->budget, .arguments = {}});
  policy.spec_ += "+" + policy.rule_spec_;
  return policy;
}

void Policy::add_part(const SpecPart& part) {
  const auto rules = budget_rows();
  const auto rule = std::ranges::find(rules, part.name, &BudgetRow::name);
  if (rule != rules.end()) {
    if (rule_)
      throw Error(ErrorCode::usage,
                  spec_ + ": two budget rules, " + rule_spec_ + " and " + part.name);
    const KnobValues knobs = resolve_knobs(rule->knobs, part);
    rule_ = rule->make(knobs);
    rule_spec_ = spec_text(rule->name, rule->knobs, knobs);
    return;
  }
  const WrapperRow& row = find_part(part.name);
  if (spec_.find("+" + row.name) != std::string::npos) {
    throw Error(ErrorCode::usage, spec_ + ": " + row.name + " is there twice");
  }
  const std::string reason = row.refuses != nullptr ? row.refuses(*row_) : std::string();
  if (!reason.empty()) {
    throw Error(ErrorCode::usage, row_->name + "+" + row.name + " is refused: " + reason);
  }
  const KnobValues knobs = resolve_knobs(row.knobs, part);
  const bool weighed = weighs();
  wrappers_.push_back(row.make(knobs));
  if (weighed && wrappers_.back()->weighs()) {
    throw Error(ErrorCode::usage, spec_ + "+" + row.name + " is refused: two parts give weights");
  }
  spec_ += "+" + spec_text(row.name, row.knobs, knobs);
}

std::string phases_of(const ScoreRow& row) {
  return Policy::parse(row.name).in_generation() ? "prefill, generation" : "prefill";
}

Needs Policy::needs() const {
  Needs needs = scorer_ ? scorer_->needs() : Needs{};
  for (const auto& wrapper : wrappers_) needs = needs | wrapper->needs();
  return rule_ ? needs | rule_->needs() : needs;
}

bool Policy::weighs() const {
  return std::ranges::any_of(wrappers_, [](const auto& wrapper) { return wrapper->weighs(); });
}

Needs Needs::operator|(const Needs& other) const {
  return {.tail = std::max(tail, other.tail),
          .prompt = prompt || other.prompt,
          .future = future || other.future,
          .repeat = repeat || other.repeat,
          .lookahead = std::max(lookahead, other.lookahead),
          .calibration = calibration || other.calibration};
}

Needs needs_of(std::string_view spec) { return Policy::parse(spec).needs(); }

double Policy::scoring_share() const { return wrappers_.empty() ? 1 : 0.5; }

Scores Policy::score(const PolicyContext& context) const {
  Scores scores = scorer_->score(pass_of(context, 0, scoring_share()));
  for (const auto& wrapper : wrappers_) wrapper->rescore(scores, context);
  return scores;
}

Plan Policy::select(const Scores& scores, const PolicyContext& context) const {
  check_scores(spec_, scores, context);
  const RowLimits limits = row_limits(context);
  const int64_t total = kept_entries(limits, context.keep_total);
  const auto quotas = rule_->quotas(scores, context);
  check_quotas(spec_, quotas, limits, total);

  Scores ranked = scores;
  double at = scoring_share();
  const double step = (1 - at) / (2 * double(wrappers_.size()));
  const auto next_pass = [&] {
    const double from = std::exchange(at, at + step);
    return pass_of(context, from, at);
  };
  for (const auto& wrapper : wrappers_) wrapper->rerank(ranked, quotas, next_pass());
  check_scores(spec_, ranked, context);
  Plan plan = keep_best(ranked, quotas, context);
  for (const auto& wrapper : wrappers_) wrapper->refine(plan, ranked, next_pass());
  if (!wrappers_.empty()) report_progress(context, 1);
  return plan;
}

std::vector<double> Policy::mask_costs(std::span<const Plan> masks, const Scores& scores,
                                       const PolicyContext& context) const {
  return wrappers_.empty() ? scorer_->mask_costs(masks, scores, context)
                           : scorer_->Scorer::mask_costs(masks, scores, context);
}

Plan keep_best(const Scores& scores, std::span<const int> quotas, const PolicyContext& context) {
  Plan plan{.rows = {}, .notes = scores.notes, .scratch_peak = scores.scratch_peak};
  for (size_t row = 0; row < quotas.size(); ++row) {
    plan.rows.push_back(
        {.keep = best_entries(scores.rows[row], eligible_entries(context, int(row)), quotas[row]),
         .log_weight = {}});
  }
  return plan;
}

}  // namespace pith

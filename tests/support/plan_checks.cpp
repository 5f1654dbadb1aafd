#include "support/plan_checks.h"

#include <algorithm>

#include "policy/policy.h"

namespace pith::test {

namespace {

std::string row_fault(const std::vector<int32_t>& keep, std::span<const int32_t> positions,
                      const Protection& protection) {
  const auto length = int(positions.size());
  if (keep.empty()) return "is empty";
  if (keep.front() < 0 || keep.back() >= length) return "keeps an entry that is not there";
  if (std::adjacent_find(keep.begin(), keep.end(), std::greater_equal<>()) != keep.end()) {
    return "is not ascending";
  }
  for (int entry = 0; entry < length; ++entry) {
    const bool guarded = entry < protection.sinks || entry >= length - protection.window ||
                         positions[size_t(entry)] < protection.prompt;
    if (guarded && !std::binary_search(keep.begin(), keep.end(), entry)) {
      return "evicts protected entry " + std::to_string(entry);
    }
  }
  return "";
}

}  // namespace

std::string plan_fault(const Plan& plan, const PolicyContext& context) {
  const ModelShape& shape = context.cache.shape();
  if (plan.rows.size() != size_t(shape.n_rows())) return "rows are missing";
  int64_t entries = 0;
  for (int row = 0; row < shape.n_rows(); ++row) {
    const auto positions = context.cache.positions(row / shape.n_head_kv, row % shape.n_head_kv);
    const RowPlan& plan_row = plan.rows[size_t(row)];
    std::string fault = row_fault(plan_row.keep, positions, context.protection);
    if (!plan_row.log_weight.empty() && plan_row.log_weight.size() != plan_row.keep.size()) {
      fault = "has log-weights of another length";
    }
    const size_t numbers = plan_row.keep.size() * size_t(shape.head_dim);
    if (!plan_row.values.empty() && plan_row.values.size() != numbers) {
      fault = "has values of another length";
    }
    if (!fault.empty()) return "row " + std::to_string(row) + " " + fault;
    entries += int64_t(positions.size());
  }
  const int64_t wanted = std::min(context.keep_total, entries);
  if (plan.total() == wanted) return "";
  return "keeps " + std::to_string(plan.total()) + " entries instead of " + std::to_string(wanted);
}

std::vector<std::string> evicting_specs() {
  std::vector<std::string> specs;
  for (const PresetRow& preset : preset_rows()) specs.push_back(preset.name);
  for (const ScoreRow& score : score_rows()) {
    if (Policy::parse(score.name).keeps_all()) continue;
    for (const BudgetRow& rule : budget_rows()) specs.push_back(score.name + "+" + rule.name);
    for (const WrapperRow& wrapper : wrapper_rows()) {
      const bool refused = wrapper.refuses != nullptr && !wrapper.refuses(score).empty();
      if (!refused) specs.push_back(score.name + "+" + wrapper.name + "+" + score.budget);
    }
    for (const Knob& knob : score.knobs) {
      for (const std::string& choice : knob.choices) {
        const std::string spec = score.name + "(" + knob.name + "=" + choice + ")";
        if (choice != knob.value) specs.push_back(spec + "+" + score.budget);
      }
    }
  }
  return specs;
}

Plan run_policy(const std::string& spec, const PolicyContext& context) {
  const Policy policy = Policy::parse(spec);
  return policy.select(policy.score(context), context);
}

std::vector<std::vector<int32_t>> kept(const Plan& plan) {
  std::vector<std::vector<int32_t>> out;
  for (const RowPlan& row : plan.rows) out.push_back(row.keep);
  return out;
}

}  // namespace pith::test

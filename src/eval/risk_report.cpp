#include "eval/risk_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "eval/metrics.h"
#include "eval/receipt_json.h"
#include "eval/text_table.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

/// One figure of a head at every budget.
template <class Read>
Json by_budget(const HeadRisk& head, const Read& read) {
  Json out = Json::array();
  for (const BudgetRisk& at : head.at) out.push_back(read(at));
  return out;
}

Json head_json(const HeadRisk& head) {
  return {
      {"entries", head.entries},
      {"tr", head.tr},
      {"eigenvalues", head.eigenvalues},
      {"budget_entries", by_budget(head, [](const BudgetRisk& at) { return at.entries; })},
      {"tail_share", by_budget(head, [](const BudgetRisk& at) { return at.tail_share; })},
      {"bounds",
       {{"aware", by_budget(head, [](const BudgetRisk& at) { return at.bounds.aware; })},
        {"agnostic", by_budget(head, [](const BudgetRisk& at) { return at.bounds.agnostic; })},
        {"streaming", by_budget(head, [](const BudgetRisk& at) { return at.bounds.streaming; })}}},
      {"kept", by_budget(head, [](const BudgetRisk& at) { return at.kept; })},
      {"plan_error", by_budget(head, [](const BudgetRisk& at) { return at.plan_error; })},
      {"evicted_mass", by_budget(head, [](const BudgetRisk& at) { return at.evicted_mass; })}};
}

double mean_over_heads(const Risk& risk, size_t b, double RiskBounds::* bound) {
  double sum = 0;
  int count = 0;
  for (const auto& layer : risk.layers) {
    for (const HeadRisk& head : layer) {
      sum += head.at[b].bounds.*bound;
      ++count;
    }
  }
  return sum / std::max(count, 1);
}

/// "median .., mean .., most .. (layer 3, head 0)" of the plan error.
std::string worst_plan(const Risk& risk, size_t b) {
  const Spread all = spread_of(risk, -1, b, &BudgetRisk::plan_error);
  std::string where;
  for (size_t il = 0; il < risk.layers.size() && where.empty(); ++il) {
    for (size_t h = 0; h < risk.layers[il].size(); ++h) {
      if (risk.layers[il][h].at[b].plan_error < all.most) continue;
      where = "layer " + std::to_string(il) + ", head " + std::to_string(h);
      break;
    }
  }
  return "median " + significant(all.median, 3) + ", mean " + significant(all.mean, 3) + ", most " +
         significant(all.most, 3) + " (" + where + ")";
}

std::string budget_table(const Risk& risk, size_t b) {
  TextTable table({"layer", "tr mean", "max", "tail mean", "max", "plan error mean", "max",
                   "evicted mass mean", "max"},
                  0);
  for (size_t il = 0; il < risk.layers.size(); ++il) {
    Spread tr;
    for (const HeadRisk& head : risk.layers[il]) {
      tr.mean += head.tr / double(risk.layers[il].size());
      tr.most = std::max(tr.most, head.tr);
    }
    std::vector<std::string> cells{std::to_string(il), significant(tr.mean, 3),
                                   significant(tr.most, 3)};
    for (const RiskFigure& figure : risk_figures()) {
      const Spread s = spread_of(risk, int(il), b, figure.value);
      cells.insert(cells.end(), {fixed(s.mean, 4), fixed(s.most, 4)});
    }
    table.add(cells);
  }
  return table.text();
}

std::string budget_part(const Risk& risk, size_t b) {
  return "budget " + risk.budgets[b] + "\n\n" + budget_table(risk, b) +
         "\nplan error over heads: " + worst_plan(risk, b) +
         "\nbounds up to a constant, mean over heads: query-aware " +
         significant(mean_over_heads(risk, b, &RiskBounds::aware), 3) + ", query-agnostic " +
         significant(mean_over_heads(risk, b, &RiskBounds::agnostic), 3) + ", streaming " +
         significant(mean_over_heads(risk, b, &RiskBounds::streaming), 3) + "\n\n";
}

}  // namespace

std::span<const RiskFigure> risk_figures() {
  static constexpr std::array kFigures{RiskFigure{"Tail share", &BudgetRisk::tail_share},
                                       RiskFigure{"Plan error", &BudgetRisk::plan_error},
                                       RiskFigure{"Evicted mass", &BudgetRisk::evicted_mass}};
  return kFigures;
}

Spread spread_of(const Risk& risk, int layer, size_t b, double BudgetRisk::* value) {
  std::vector<double> values;
  for (size_t il = 0; il < risk.layers.size(); ++il) {
    if (layer >= 0 && il != size_t(layer)) continue;
    for (const HeadRisk& head : risk.layers[il]) values.push_back(head.at[b].*value);
  }
  if (values.empty()) return {};
  std::ranges::sort(values);
  const size_t n = values.size();
  return {.mean = mean(values),
          .median = (values[(n - 1) / 2] + values[n / 2]) / 2,
          .most = values.back()};
}

std::span<const std::string> risk_words() {
  static const std::array<std::string, 4> kWords{
      "tail share: the part of what a head answers (tr, the trace of Sigma) that lies beyond its "
      "K/3 "
      "largest directions, K the budget's entries. Near 0 the head compresses; near 1 it is a "
      "table to look things up in, and no choice and weighting of K entries stands for the rest.",
      "plan error: (1 - w)^T G (1 - w) / tr of the plan made, w its weights, 0 for what it evicts. "
      "Over 1 the losses add up rather than cancel. evicted mass: attention that the queries pay "
      "to "
      "what the plan evicts.",
      "The bounds tail_{K/3} / K, tr / K and log(2 + t/K) / K tr hold up to constants that nobody "
      "knows: they compare heads, texts and budgets, and predict no error.",
      "What this does not promise: tr alone did not rank heads by the damage that was measured "
      "(rank correlation -0.1 on a 135M model), plan error (0.6) and evicted mass (0.66) did, and "
      "all hold for the queries named above; later questions may ask otherwise. `pith compare` "
      "measures what really changes."};
  return kWords;
}

Json to_json(const RiskReport& report) {
  const Risk& risk = report.risk;
  Json layers = Json::array();
  for (size_t il = 0; il < risk.layers.size(); ++il) {
    Json heads = Json::array();
    for (const HeadRisk& head : risk.layers[il]) heads.push_back(head_json(head));
    layers.push_back({{"layer", il}, {"heads", heads}});
  }
  return {{"model", report.model},
          {"command", report.command},
          {"machine", to_json(report.machine)},
          {"text", report.text},
          {"n_tokens", report.n_tokens},
          {"policy", risk.policy},
          {"queries", kRiskQueriesNames.at(size_t(risk.queries))},
          {"budgets", risk.budgets},
          {"layers", layers},
          {"notes", risk.notes}};
}

std::string to_table(const RiskReport& report) {
  const Risk& risk = report.risk;
  std::string out = grouped(report.n_tokens) +
                    " tokens, queries: " + std::string(kRiskQueriesNames.at(size_t(risk.queries))) +
                    "\nplans of " + risk.policy + "\n\n";
  for (size_t b = 0; b < risk.budgets.size(); ++b) out += budget_part(risk, b);
  for (const std::string& words : risk_words()) out += words + "\n";
  for (const std::string& note : risk.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace pith

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "eval/machine.h"
#include "pith/risk.hpp"

namespace pith {

/// Everything that a run of `risk` says.
struct RiskReport {
  std::string model;    ///< path
  std::string command;  ///< as typed
  Machine machine;
  std::string text;  ///< path of what was read
  int64_t n_tokens = 0;
  Risk risk;
};

/// One figure of a head at a budget, as tables and pages show it.
struct RiskFigure {
  const char* name;
  double BudgetRisk::* value;
};

/// Tail share, plan error, evicted mass.
std::span<const RiskFigure> risk_figures();

/// Of one figure over some heads.
struct Spread {
  double mean = 0, median = 0, most = 0;
};

/// Over the heads of a layer, or over all where `layer` is negative, at budget `b`.
Spread spread_of(const Risk& risk, int layer, size_t b, double BudgetRisk::* value);

/// What the figures mean and what they do not promise, a paragraph each.
std::span<const std::string> risk_words();

/// {model, command, machine, text, n_tokens, policy, queries, budgets, layers: [{layer, heads:
/// [{entries, tr, eigenvalues, budget_entries, tail_share, bounds: {aware, agnostic, streaming},
/// kept, plan_error, evicted_mass}]}], notes}. What depends on the budget is an array in the order
/// of `budgets`.
nlohmann::ordered_json to_json(const RiskReport& report);

/// For the terminal: a table a budget with a line a layer, the worst head, the meaning.
std::string to_table(const RiskReport& report);

/// A page of its own: verdict, heat maps, eigenvalues, figures, how to read them.
std::string to_html(const RiskReport& report);

}  // namespace pith

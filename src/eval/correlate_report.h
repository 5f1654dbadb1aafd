#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "eval/correlate_summary.h"
#include "eval/machine.h"

namespace pith {

/// Everything that a run of `correlate` says.
struct CorrelateReport {
  std::string model;    ///< path
  std::string command;  ///< as typed
  Machine machine;
  CorrelateOptions options;
  std::vector<FidelityRow> rows;        ///< those asked for
  std::vector<RowCorrelation> results;  ///< of the rows evaluated
  std::vector<RaterSummary> summaries;  ///< of the results; empty where there are none
  std::vector<std::string> notes;
};

/// {model, command, machine, masks, budgets, positions, seed, rows, results: [{policy,
/// spearman_bins, spearman_masks, spearman_within, ci: {bins, masks, within}, bins: [{lo, hi,
/// score, kl}], per_row: [{id, kind, spearman_masks, spearman_within}]}], notes}. `within` is over
/// the masks of one budget.
nlohmann::ordered_json to_json(const CorrelateReport& report);

/// For the terminal: one line a policy.
std::string to_table(const CorrelateReport& report);

/// A page of its own: verdict, curves, figures, how to read them.
std::string to_html(const CorrelateReport& report);

}  // namespace pith

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "eval/machine.h"
#include "eval/rows.h"
#include "eval/summary.h"

namespace pith {

/// Everything that a comparison says.
struct FidelityReport {
  std::string model;    ///< path
  std::string command;  ///< as typed
  Machine machine;
  std::vector<FidelityRow> rows;     ///< those evaluated
  std::vector<CaseResults> results;  ///< in the order of the table
  std::string baseline;              ///< full spec, or empty
  std::vector<std::string> notes;    ///< what was added, left out or cut short
};

/// {model, command, machine, rows, results, notes}: the result format, `budget` as asked, `policy`
/// the full spec; entries, bytes and seconds are sums over rows, `receipt` is the first row's.
nlohmann::ordered_json to_json(const FidelityReport& report);

/// One line a case, without the rows.
std::string to_csv(const FidelityReport& report);

/// For the terminal: one line a case, ratios to the baseline, kinds where there are several, notes.
std::string to_table(const FidelityReport& report);

}  // namespace pith

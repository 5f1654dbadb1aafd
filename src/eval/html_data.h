#pragma once

#include <string>
#include <vector>

#include "eval/report.h"
#include "eval/svg_chart.h"

namespace pith {

/// One case with everything that the page says of it.
struct PageCase {
  CaseSummary summary;
  const std::vector<RowFidelity>* rows;  ///< of the report
  std::string label;                     ///< short spec
  SeriesStyle style;                     ///< the same for a policy everywhere
  bool reference = false;                ///< full, random or streaming: shown, but nobody's choice

  double kept_share() const { return double(summary.entries_kept) / double(summary.entries_full); }
  bool is_full() const { return kept_share() >= 1 && summary.kl_mean == 0; }
};

/// A report as the page's parts read it. The report must outlive it.
struct PageData {
  explicit PageData(const FidelityReport& report);

  const FidelityReport& report;
  std::vector<PageCase> cases;        ///< those with rows, in the report's order
  std::vector<std::string> policies;  ///< full specs, those that keep everything left out
  std::vector<std::string> budgets;   ///< loosest first
  std::vector<std::string> kinds;

  std::vector<const PageCase*> of_policy(const std::string& spec) const;
  /// Least mean KL first; cases that keep everything left out.
  std::vector<const PageCase*> ranked(const std::string& budget) const;
};

}  // namespace pith

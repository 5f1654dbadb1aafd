#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/fidelity.h"
#include "eval/metrics.h"

namespace pith {

/// One case over the rows evaluated so far.
struct CaseResults {
  FidelityCase asked;
  std::vector<RowFidelity> rows;
};

struct KindSummary {
  int n = 0;  ///< rows
  double kl = 0, kl_se = 0, same_top = 0, dnll = 0;
  std::optional<Ratio> vs_baseline;
};

/// Figures of one case. Means and standard errors are over rows, each row being the mean of its
/// scored positions; median, p90 and p99 are over all scored positions.
struct CaseSummary {
  FidelityCase asked;
  int n = 0;
  double kl_mean = 0, kl_median = 0, kl_p90 = 0, kl_p99 = 0;
  double kl_se = 0;  ///< over rows; over the row's positions where there is one row
  double same_top = 0, dnll = 0, rms_dp = 0;
  /// Median over rows of the first difference; absent where half of the rows have none.
  std::optional<double> divergence;
  int64_t entries_kept = 0, entries_full = 0, bytes_kept = 0, bytes_full = 0;  ///< sums over rows
  double score_s = 0, select_s = 0;                                            ///< sums over rows
  /// Mean KL over that of the baseline at the same budget.
  std::optional<Ratio> vs_baseline;
  std::map<std::string, KindSummary> per_kind;
};

/// Summaries in the order of `results`; cases without rows are left out. `baseline` is a full spec,
/// or empty for none.
std::vector<CaseSummary> summarize(std::span<const CaseResults> results,
                                   const std::string& baseline);

}  // namespace pith

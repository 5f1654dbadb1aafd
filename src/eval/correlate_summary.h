#pragma once

#include <span>
#include <string>
#include <vector>

#include "eval/correlate.h"
#include "eval/metrics.h"

namespace pith {

/// Masks between two percentiles of a rater's cost.
struct CostBin {
  double lo = 0, hi = 0;     ///< percentiles, 0..100
  double score = 0, kl = 0;  ///< means: of the cost, and of the KL in nats
};

/// How well one rater's cost orders the masks by their KL. Values are r_s of Spearman with 95 %
/// percentile intervals from bootstrap resamples (fixed seed) of the rows and, within each, of the
/// masks of each budget; a single row is resampled by masks only.
struct RaterSummary {
  std::string name;
  Ratio bins;    ///< over the bins
  Ratio masks;   ///< over the masks of a row; mean over rows
  Ratio within;  ///< over the masks of a row and budget; mean over both
  std::vector<CostBin> table;
  std::vector<double> row_masks, row_within;  ///< of each row
};

/// `budgets` as many as the masks took turns with. Bins hold equal shares of each row's masks, by
/// the rater's cost in that row, and are means over rows: at most `bins`, fewer where a row has
/// fewer masks. At least one row.
std::vector<RaterSummary> summarize(std::span<const RowCorrelation> rows,
                                    std::span<const std::string> names, int budgets, int bins = 20);

}  // namespace pith

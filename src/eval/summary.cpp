#include "eval/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pith {
namespace {

using Rows = std::vector<const RowFidelity*>;

Rows rows_of(const CaseResults& results, const std::string* kind = nullptr) {
  Rows rows;
  for (const RowFidelity& row : results.rows) {
    if (kind == nullptr || row.kind == *kind) rows.push_back(&row);
  }
  return rows;
}

/// One number per row, rows where it is not defined left out.
template <typename Get>
std::vector<double> collect(const Rows& rows, Get get) {
  std::vector<double> values;
  for (const RowFidelity* row : rows) {
    const double value = get(*row);
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

std::vector<double> row_kls(const Rows& rows) {
  return collect(rows, [](const RowFidelity& row) { return mean(row.kl); });
}

std::vector<double> position_kls(const Rows& rows) {
  std::vector<double> values;
  for (const RowFidelity* row : rows) values.insert(values.end(), row->kl.begin(), row->kl.end());
  return values;
}

double kl_error(const Rows& rows) {
  return rows.size() == 1 ? standard_error(rows[0]->kl) : standard_error(row_kls(rows));
}

double mean_same_top(const Rows& rows) {
  return mean(collect(rows, [](const RowFidelity& row) { return row.same_top; }));
}

double mean_dnll(const Rows& rows) {
  return mean(collect(rows, [](const RowFidelity& row) { return row.dnll; }));
}

std::optional<double> median_divergence(const Rows& rows) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> values = collect(rows, [](const RowFidelity& row) {
    return row.divergence ? double(*row.divergence) : kNever;
  });
  std::ranges::sort(values);
  const double median = values[(values.size() - 1) / 2];
  return std::isfinite(median) ? std::optional(median) : std::nullopt;
}

KindSummary summarize_kind(const Rows& rows) {
  KindSummary summary;
  summary.n = int(rows.size());
  summary.kl = mean(row_kls(rows));
  summary.kl_se = kl_error(rows);
  summary.same_top = mean_same_top(rows);
  summary.dnll = mean_dnll(rows);
  return summary;
}

void add_costs(CaseSummary& summary, const Rows& rows) {
  for (const RowFidelity* row : rows) {
    const Receipt& receipt = row->receipt;
    summary.entries_kept += receipt.entries_kept;
    summary.entries_full += receipt.entries_full;
    summary.bytes_kept += receipt.bytes_kept;
    summary.bytes_full += receipt.bytes_full;
    summary.score_s += receipt.time_s.score;
    summary.select_s += receipt.time_s.select;
  }
}

CaseSummary summarize_case(const CaseResults& results) {
  const Rows rows = rows_of(results);
  CaseSummary summary;
  summary.asked = results.asked;
  summary.n = int(rows.size());
  const std::vector<double> positions = position_kls(rows);
  summary.kl_mean = mean(row_kls(rows));
  summary.kl_se = kl_error(rows);
  summary.kl_median = quantile(positions, 0.5);
  summary.kl_p90 = quantile(positions, 0.9);
  summary.kl_p99 = quantile(positions, 0.99);
  summary.same_top = mean_same_top(rows);
  summary.dnll = mean_dnll(rows);
  summary.rms_dp =
      std::sqrt(mean(collect(rows, [](const RowFidelity& row) { return row.mean_squared_dp; })));
  summary.divergence = median_divergence(rows);
  add_costs(summary, rows);
  for (const RowFidelity& row : results.rows) {
    if (summary.per_kind.contains(row.kind)) continue;
    summary.per_kind[row.kind] = summarize_kind(rows_of(results, &row.kind));
  }
  return summary;
}

/// Fills the ratios of a case to the baseline at the same budget.
void compare_with(CaseSummary& summary, const CaseResults& results, const CaseResults& baseline) {
  summary.vs_baseline = paired_ratio(row_kls(rows_of(results)), row_kls(rows_of(baseline)));
  for (auto& [kind, figures] : summary.per_kind) {
    figures.vs_baseline =
        paired_ratio(row_kls(rows_of(results, &kind)), row_kls(rows_of(baseline, &kind)));
  }
}

}  // namespace

std::vector<CaseSummary> summarize(std::span<const CaseResults> results,
                                   const std::string& baseline) {
  std::vector<CaseSummary> summaries;
  for (const CaseResults& one : results) {
    if (one.rows.empty()) continue;
    CaseSummary summary = summarize_case(one);
    const auto other = std::ranges::find_if(results, [&](const CaseResults& candidate) {
      return candidate.asked.policy == baseline && candidate.asked.budget == one.asked.budget;
    });
    if (other != results.end() && one.asked.policy != baseline) {
      compare_with(summary, one, *other);
    }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

}  // namespace pith

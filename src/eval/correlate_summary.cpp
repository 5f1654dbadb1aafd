#include "eval/correlate_summary.h"

#include <algorithm>
#include <random>

#include "eval/rank_correlation.h"

namespace pith {
namespace {

constexpr int kResamples = 1000;

/// Costs that one rater gave to some masks, and what the masks did.
struct Rated {
  std::vector<double> cost, kl;

  void add(const Rated& other, size_t mask) {
    cost.push_back(other.cost[mask]);
    kl.push_back(other.kl[mask]);
  }
};

/// The masks of a row, by budget.
using RatedRow = std::vector<Rated>;

RatedRow by_budget(const RowCorrelation& row, size_t rater, size_t budgets) {
  const Rated all{row.cost[rater], row.kl};
  RatedRow out(budgets);
  for (size_t m = 0; m < all.kl.size(); ++m) out[m % budgets].add(all, m);
  return out;
}

Rated joined(const RatedRow& row) {
  Rated out;
  for (const Rated& part : row) {
    for (size_t m = 0; m < part.kl.size(); ++m) out.add(part, m);
  }
  return out;
}

double within_budgets(const RatedRow& row) {
  std::vector<double> values;
  for (const Rated& part : row) values.push_back(spearman(part.cost, part.kl));
  return mean(values);
}

std::vector<CostBin> bins_of(std::span<const RatedRow> rows, int bins) {
  std::vector<CostBin> out(static_cast<size_t>(bins));
  for (const RatedRow& row : rows) {
    const Rated all = joined(row);
    const auto score = percentile_bins(all.cost, all.cost, bins);
    const auto kl = percentile_bins(all.cost, all.kl, bins);
    for (size_t b = 0; b < out.size(); ++b) {
      out[b].score += score[b] / double(rows.size());
      out[b].kl += kl[b] / double(rows.size());
    }
  }
  for (size_t b = 0; b < out.size(); ++b) {
    out[b].lo = 100 * double(b) / bins;
    out[b].hi = 100 * double(b + 1) / bins;
  }
  return out;
}

struct Figures {
  double bins = 0, masks = 0, within = 0;
};

Figures figures_of(std::span<const RatedRow> rows, int bins) {
  Figures out;
  std::vector<double> kl, rank;
  for (const CostBin& bin : bins_of(rows, bins)) {
    rank.push_back(bin.lo);
    kl.push_back(bin.kl);
  }
  out.bins = spearman(rank, kl);
  for (const RatedRow& row : rows) {
    const Rated all = joined(row);
    out.masks += spearman(all.cost, all.kl) / double(rows.size());
    out.within += within_budgets(row) / double(rows.size());
  }
  return out;
}

/// Rows drawn with replacement, and of each budget as many masks as there are.
std::vector<RatedRow> resampled(std::span<const RatedRow> rows, std::mt19937_64& random) {
  std::vector<RatedRow> out;
  for (size_t r = 0; r < rows.size(); ++r) {
    const RatedRow& source = rows[random() % rows.size()];
    RatedRow& row = out.emplace_back(source.size());
    for (size_t b = 0; b < source.size(); ++b) {
      const size_t count = source[b].kl.size();
      for (size_t m = 0; m < count; ++m) row[b].add(source[b], random() % count);
    }
  }
  return out;
}

Ratio with_interval(double value, std::span<const double> sampled) {
  return {value, quantile(sampled, 0.025), quantile(sampled, 0.975)};
}

RaterSummary summarize_rater(const std::string& name, std::span<const RatedRow> rows, int bins) {
  RaterSummary out;
  out.name = name;
  out.table = bins_of(rows, bins);
  for (const RatedRow& row : rows) {
    const Rated all = joined(row);
    out.row_masks.push_back(spearman(all.cost, all.kl));
    out.row_within.push_back(within_budgets(row));
  }
  std::mt19937_64 random(1);
  std::vector<double> by_bins, by_masks, by_within;
  for (int i = 0; i < kResamples; ++i) {
    const Figures f = figures_of(resampled(rows, random), bins);
    by_bins.push_back(f.bins);
    by_masks.push_back(f.masks);
    by_within.push_back(f.within);
  }
  const Figures whole = figures_of(rows, bins);
  out.bins = with_interval(whole.bins, by_bins);
  out.masks = with_interval(whole.masks, by_masks);
  out.within = with_interval(whole.within, by_within);
  return out;
}

}  // namespace

std::vector<RaterSummary> summarize(std::span<const RowCorrelation> rows,
                                    std::span<const std::string> names, int budgets, int bins) {
  std::vector<RaterSummary> out;
  for (size_t r = 0; r < names.size(); ++r) {
    std::vector<RatedRow> rated;
    for (const RowCorrelation& row : rows) {
      rated.push_back(by_budget(row, r, size_t(budgets)));
      bins = std::min(bins, int(row.kl.size()));
    }
    out.push_back(summarize_rater(names[r], rated, bins));
  }
  return out;
}

}  // namespace pith

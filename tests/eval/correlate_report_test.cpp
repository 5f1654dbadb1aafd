#include "eval/correlate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace pith {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// 40 masks, half of each of two budgets: one rater knows the KL, one only the budget, one has it
/// upside down within each budget.
RowCorrelation sample_row(const std::string& id) {
  RowCorrelation row{id, "text", {}, std::vector<std::vector<double>>(3)};
  for (int m = 0; m < 40; ++m) {
    const double budget = m % 2, kl = 10 * budget + m / 2 % 10 + 0.01 * m;
    row.kl.push_back(kl);
    row.cost[0].push_back(7 * kl);
    row.cost[1].push_back(budget);
    row.cost[2].push_back(20 * budget - kl);
  }
  return row;
}

CorrelateReport sample_report(int rows) {
  CorrelateReport report;
  report.options.policies = {"knows", "counts", "<upside down>"};
  report.options.budgets = {"10%", "5%"};
  report.options.yardstick = 0;
  report.options.masks = 40;
  report.rows.resize(3);
  for (int r = 0; r < rows; ++r) report.results.push_back(sample_row("r" + std::to_string(r)));
  report.summaries = summarize(report.results, report.options.policies, 2);
  report.notes = {"random added"};
  return report;
}

TEST(CorrelateSummary, OfACostThatIsTheKl) {
  const RaterSummary s = sample_report(1).summaries[0];
  for (const Ratio& r : {s.masks, s.within}) {
    EXPECT_DOUBLE_EQ(r.value, 1);
    EXPECT_DOUBLE_EQ(r.lo, 1);
    EXPECT_DOUBLE_EQ(r.hi, 1);
  }
  EXPECT_DOUBLE_EQ(s.bins.value, 1);
  EXPECT_GT(s.bins.lo, 0.99);  // masks drawn twice may fill two bins
  ASSERT_EQ(s.table.size(), 20U);
  EXPECT_EQ(s.table[1].lo, 5);
  EXPECT_EQ(s.table[1].hi, 10);
  // Masks 2 and 22 of the first budget.
  EXPECT_NEAR(s.table[1].kl, 1 + 0.12, 1e-12);
  EXPECT_NEAR(s.table[1].score, 7 * 1.12, 1e-12);
}

/// r_s of a split into halves with the order: ranks 10.5 and 30.5 against 1..40; the covariance is
/// 100, the variances 100 and (40^2 - 1)/12.
TEST(CorrelateSummary, CountingEvictionsOrdersNothingWithinABudget) {
  const RaterSummary s = sample_report(1).summaries[1];
  EXPECT_NEAR(s.masks.value, 100 / std::sqrt(100 * (1600 - 1) / 12.0), 1e-12);
  EXPECT_EQ(s.within.value, 0);
}

TEST(CorrelateSummary, AnOrderUpsideDownWithinEachBudget) {
  const RaterSummary s = sample_report(1).summaries[2];
  EXPECT_DOUBLE_EQ(s.within.value, -1);
  EXPECT_EQ(s.row_within, (std::vector<double>{s.within.value}));
}

TEST(CorrelateSummary, IntervalsHoldTheValueAndTheirEndsAreApart) {
  RowCorrelation noisy = sample_row("a");
  for (size_t m = 0; m < noisy.kl.size(); ++m) noisy.cost[0][m] += 30 * double(m * 7 % 11);
  const std::vector<std::string> names{"a", "b", "c"};
  const RaterSummary s = summarize(std::vector{noisy}, names, 2)[0];
  for (const Ratio& r : {s.bins, s.masks, s.within}) {
    EXPECT_LT(r.lo, r.value);
    EXPECT_LT(r.value, r.hi);
  }
}

TEST(CorrelateSummary, FewerBinsWhereThereAreFewerMasks) {
  RowCorrelation row{"a", "text", {3, 1, 2}, {{3, 1, 2}}};
  const std::vector<std::string> names{"a"};
  EXPECT_EQ(summarize(std::vector{row}, names, 1)[0].table.size(), 3U);
}

TEST(CorrelateJson, HasTheFieldsOfTheResultFormat) {
  const auto json = to_json(sample_report(2));
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"model", "command", "machine", "masks", "budgets",
                                             "positions", "seed", "rows", "results", "notes"}));
  const auto& result = json["results"][0];
  EXPECT_EQ(result["policy"], "knows");
  EXPECT_DOUBLE_EQ(result["spearman_bins"], 1);
  EXPECT_DOUBLE_EQ(result["spearman_masks"], 1);
  EXPECT_DOUBLE_EQ(result["ci"]["masks"][0], 1);
  ASSERT_EQ(result["bins"].size(), 20U);
  for (const char* field : {"lo", "hi", "score", "kl"}) {
    EXPECT_TRUE(result["bins"][0].contains(field)) << field;
  }
  EXPECT_EQ(result["per_row"].size(), 2U);
  EXPECT_EQ(json["rows"].size(), 3U);
}

TEST(CorrelateTable, HasALineAPolicyAndTheNotes) {
  const std::string table = to_table(sample_report(2));
  EXPECT_THAT(table, HasSubstr("2 of 3 rows, 40 masks each"));
  EXPECT_THAT(table, HasSubstr("1.00 [1.00, 1.00]"));
  EXPECT_THAT(table, HasSubstr("note: random added"));
  EXPECT_EQ(to_table(CorrelateReport()), "no row was evaluated\n");
}

TEST(CorrelateHtml, HasCurvesFiguresAndEscapedNames) {
  const std::string page = to_html(sample_report(2));
  EXPECT_THAT(page, HasSubstr("knows orders masks of the same budget best: r_s 1.00"));
  EXPECT_THAT(page, HasSubstr("<svg class=\"chart\""));
  EXPECT_THAT(page, HasSubstr("&lt;upside down&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<upside")));
  EXPECT_THAT(page, HasSubstr("random added"));
  EXPECT_THAT(to_html(CorrelateReport()), HasSubstr("No row was evaluated."));
}

}  // namespace
}  // namespace pith

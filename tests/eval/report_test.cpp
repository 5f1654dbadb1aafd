#include "eval/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "eval/receipt_json.h"

namespace pith {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

RowFidelity row(const std::string& id, const std::string& kind, std::vector<double> kl) {
  RowFidelity r;
  r.id = id;
  r.kind = kind;
  r.kl = std::move(kl);
  r.same_top = 0.5;
  r.dnll = 0.25;
  r.mean_squared_dp = 0.04;
  r.receipt.entries_kept = 10;
  r.receipt.entries_full = 100;
  r.receipt.time_s.score = 0.5;
  return r;
}

/// Two policies over a text and a qa row; `snap(a=1)` is the baseline with twice the KL.
FidelityReport sample_report() {
  FidelityReport report;
  report.rows.resize(2);
  report.rows[0].id = "t";
  report.rows[0].context.resize(7);
  report.rows[0].continuation.resize(3);
  report.results = {
      {{"mine", "10%"}, {row("t", "text", {0.1, 0.3}), row("q", "qa", {0.4})}},
      {{"snap(a=1,b=2)", "10%"}, {row("t", "text", {0.2, 0.6}), row("q", "qa", {0.8})}},
      {{"late", "10%"}, {}},
  };
  report.results[0].rows[0].divergence = 4;
  report.results[0].rows[1].divergence = 9;
  report.baseline = "snap(a=1,b=2)";
  report.notes = {"random added for reference"};
  return report;
}

TEST(ReportJson, HasTheFieldsOfTheResultFormat) {
  const auto json = to_json(sample_report());
  EXPECT_EQ(keys(json), (std::vector<std::string>{"model", "command", "machine", "baseline", "rows",
                                                  "results", "notes"}));
  EXPECT_EQ(keys(json["rows"][0]),
            (std::vector<std::string>{"id", "n_tokens", "continuation_tokens"}));
  const auto& result = json["results"][0];
  EXPECT_EQ(keys(result),
            (std::vector<std::string>{"policy", "budget", "entries_kept", "entries_full",
                                      "bytes_kept", "bytes_full", "kl", "same_top", "dnll",
                                      "rms_dp", "divergence", "score_s", "select_s", "vs_baseline",
                                      "receipt", "per_kind", "per_row"}));
  EXPECT_EQ(keys(result["kl"]), (std::vector<std::string>{"mean", "median", "p90", "p99", "se"}));
  EXPECT_EQ(keys(result["per_row"][0]),
            (std::vector<std::string>{"id", "kind", "kl", "same_top", "dnll", "divergence"}));
  EXPECT_EQ(keys(result["per_kind"]["qa"]),
            (std::vector<std::string>{"n", "kl", "kl_se", "same_top", "dnll", "vs_baseline"}));
}

TEST(ReportJson, FiguresAreMeansOverRowsAndQuantilesOverPositions) {
  const auto json = to_json(sample_report());
  ASSERT_EQ(json["results"].size(), 2U);  // the case without rows is left out
  const auto& result = json["results"][0];
  EXPECT_NEAR(result["kl"]["mean"].get<double>(), 0.3, 1e-12);
  EXPECT_NEAR(result["kl"]["median"].get<double>(), 0.3, 1e-12);
  EXPECT_NEAR(result["kl"]["se"].get<double>(), 0.1, 1e-12);
  EXPECT_NEAR(result["rms_dp"].get<double>(), 0.2, 1e-12);
  EXPECT_EQ(result["divergence"].get<double>(), 4);
  EXPECT_EQ(result["entries_kept"].get<int>(), 20);
  EXPECT_NEAR(result["score_s"].get<double>(), 1.0, 1e-12);
  EXPECT_NEAR(result["per_kind"]["text"]["kl"].get<double>(), 0.2, 1e-12);
  EXPECT_NEAR(result["vs_baseline"]["ratio"].get<double>(), 0.5, 1e-12);
  EXPECT_NEAR(result["vs_baseline"]["hi"].get<double>(), 0.5, 1e-12);
  EXPECT_EQ(result["per_kind"]["qa"]["vs_baseline"]["hi"].dump(), "null");
  EXPECT_TRUE(json["results"][1]["vs_baseline"].is_null());
  EXPECT_TRUE(json["results"][1]["divergence"].is_null());
}

TEST(ReportJson, WhatIsNotDefinedIsNull) {
  FidelityReport report = sample_report();
  for (RowFidelity& r : report.results[0].rows) r.dnll = r.mean_squared_dp = std::nan("");
  const auto text = to_json(report).dump();
  EXPECT_THAT(text, HasSubstr("\"dnll\":null,\"rms_dp\":null"));
}

TEST(ReportJson, ReceiptHasTheFieldsOfTheResultFormat) {
  Receipt receipt;
  receipt.kept = {{3, 4}, {5, 6}};
  const auto json = to_json(receipt);
  for (const char* name :
       {"policy", "budget_requested", "n_tokens", "entries_full", "entries_kept",
        "entries_protected", "bytes_full", "bytes_kept", "per_layer", "time_s", "tokens_generated",
        "decode_tok_s", "peak_rss_bytes", "threads", "backend", "version", "commit", "notes"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_FALSE(json.contains("max_kl"));
  EXPECT_EQ(json["per_layer"][1].dump(), R"({"layer":1,"kind":"global","kept":[5,6]})");
  EXPECT_EQ(keys(json["time_s"]), (std::vector<std::string>{"load", "prefill", "observe", "score",
                                                            "select", "apply", "decode"}));
}

TEST(ReportJson, ReceiptTellsHowASearchChoseTheBudget) {
  Receipt receipt;
  receipt.max_kl = {.asked = 0.1,
                    .measured = 0.05,
                    .budget = "25%",
                    .tokens = 64,
                    .seconds = 2,
                    .tried = {{"20%", 0.2}, {"25%", 0.05}}};
  EXPECT_EQ(to_json(receipt)["max_kl"].dump(),
            R"({"asked":0.1,"measured":0.05,"budget":"25%","tokens":64,"seconds":2.0,)"
            R"("tried":[{"budget":"20%","kl":0.2},{"budget":"25%","kl":0.05}]})");
}

TEST(ReportJson, ATrialIsAFigureOfItsRow) {
  FidelityReport report = sample_report();
  report.results[0].rows[0].trial_kl = 0.5;
  const auto rows = to_json(report)["results"][0]["per_row"];
  EXPECT_EQ(rows[0]["trial_kl"], 0.5);
  EXPECT_FALSE(rows[1].contains("trial_kl"));
}

TEST(ReportJson, TextOfBytesThatAreNotUtf8) {
  EXPECT_EQ(json_text({{"path", "a\xFF"}}), "{\n \"path\": \"a\xEF\xBF\xBD\"\n}\n");
}

TEST(ReportCsv, OneLineACaseWithQuotedSpecs) {
  const std::string csv = to_csv(sample_report());
  EXPECT_EQ(std::ranges::count(csv, '\n'), 3);
  EXPECT_THAT(csv, HasSubstr("\nmine,10%,2,20,200,"));
  EXPECT_THAT(csv, HasSubstr("\n\"snap(a=1,b=2)\",10%,"));
}

TEST(ReportTable, ShowsKindsRatiosAndNotes) {
  const std::string table = to_table(sample_report());
  EXPECT_THAT(table, HasSubstr("2 of 2 rows"));
  EXPECT_THAT(table, HasSubstr("0.3000"));
  EXPECT_THAT(table, HasSubstr("qa (1)"));
  EXPECT_THAT(table, HasSubstr("0.500 [0.500, 0.500]"));
  EXPECT_THAT(table, HasSubstr("0.500 (one row)"));
  EXPECT_THAT(table, HasSubstr("note: random added for reference"));
  EXPECT_THAT(table, Not(HasSubstr("late")));
}

TEST(ReportTable, SaysThatNothingWasEvaluated) {
  EXPECT_EQ(to_table(FidelityReport()), "no row was evaluated\n");
}

}  // namespace
}  // namespace pith

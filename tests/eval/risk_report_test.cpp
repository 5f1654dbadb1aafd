#include "eval/risk_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pith {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Two layers of two heads at two budgets; figures tell layer, head and budget.
RiskReport sample_report() {
  RiskReport report{.model = "m.gguf",
                    .command = "pith risk -f <text>",
                    .machine = {.cpu = "cpu", .cores = 2, .os = "os"},
                    .text = "<text>",
                    .n_tokens = 1000,
                    .risk = {.policy = "snapkv+uniform",
                             .budgets = {"25%", "10%"},
                             .layers = {},
                             .notes = {"a note"}}};
  for (int il = 0; il < 2; ++il) {
    auto& layer = report.risk.layers.emplace_back();
    for (int h = 0; h < 2; ++h) {
      HeadRisk head{.entries = 1000, .tr = 2, .eigenvalues = {1, 0.5, 0.25}, .at = {}};
      for (int b = 0; b < 2; ++b) {
        head.at.push_back({.entries = b == 0 ? 250 : 100,
                           .tail_share = 0.1 * (1 + il) + 0.01 * h + 0.001 * b,
                           .bounds = {.aware = 0.1, .agnostic = 0.2, .streaming = 0.3},
                           .kept = 100 + h,
                           .plan_error = 0.3 + 0.1 * il * h,
                           .evicted_mass = 0.5});
      }
      layer.push_back(head);
    }
  }
  return report;
}

/// A report of heads whose values are zero.
RiskReport zero_report() {
  RiskReport report = sample_report();
  for (auto& layer : report.risk.layers) {
    for (HeadRisk& head : layer) {
      head.tr = 0;
      head.eigenvalues.assign(3, 0);
      for (BudgetRisk& at : head.at) at = {.entries = at.entries, .bounds = {}, .kept = at.kept};
    }
  }
  return report;
}

TEST(RiskSpread, OverALayerAndOverAll) {
  const Risk risk = sample_report().risk;
  EXPECT_NEAR(spread_of(risk, 1, 0, &BudgetRisk::tail_share).mean, 0.205, 1e-12);
  EXPECT_NEAR(spread_of(risk, 1, 0, &BudgetRisk::tail_share).most, 0.21, 1e-12);
  EXPECT_NEAR(spread_of(risk, -1, 0, &BudgetRisk::plan_error).mean, 0.325, 1e-12);
  EXPECT_NEAR(spread_of(risk, -1, 0, &BudgetRisk::plan_error).median, 0.3, 1e-12);
  EXPECT_EQ(spread_of(Risk{}, -1, 0, &BudgetRisk::plan_error).most, 0);
}

TEST(RiskJson, HasTheFieldsOfTheResultFormat) {
  const auto json = to_json(sample_report());
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"model", "command", "machine", "text", "n_tokens",
                                             "policy", "queries", "budgets", "layers", "notes"}));
  EXPECT_EQ(json["queries"], "future");
  ASSERT_EQ(json["layers"].size(), 2U);
  EXPECT_EQ(json["layers"][1]["layer"], 1);
  const auto& head = json["layers"][1]["heads"][1];
  EXPECT_EQ(head["tr"], 2);
  EXPECT_EQ(head["eigenvalues"].size(), 3U);
  for (const char* field : {"budget_entries", "tail_share", "kept", "plan_error", "evicted_mass"}) {
    EXPECT_EQ(head[field].size(), 2U) << field;
  }
  EXPECT_DOUBLE_EQ(head["tail_share"][1].get<double>(), 0.211);
  EXPECT_EQ(head["bounds"]["streaming"], (nlohmann::ordered_json{0.3, 0.3}));
}

TEST(RiskTable, HasALineALayerAndSaysWhatItMeans) {
  const std::string table = to_table(sample_report());
  EXPECT_THAT(table, HasSubstr("1,000 tokens, queries: future"));
  EXPECT_THAT(table, HasSubstr("budget 10%"));
  EXPECT_THAT(table, HasSubstr("0.2050  0.2100"));
  EXPECT_THAT(table, HasSubstr("median 0.3, mean 0.325, most 0.4 (layer 1, head 1)"));
  EXPECT_THAT(table, HasSubstr("up to a constant"));
  EXPECT_THAT(table, HasSubstr("does not promise"));
  EXPECT_THAT(table, HasSubstr("note: a note"));
  EXPECT_THAT(to_table(zero_report()), Not(HasSubstr("nan")));
}

TEST(RiskHtml, HasMapsOfEveryBudgetAndEscapedNames) {
  const std::string page = to_html(sample_report());
  for (const char* part :
       {"At 25%", "At 10%", "Tail share by layer and KV head at 10%", "Plan error", "Evicted mass",
        "layer 1, head 1: 0.4", "How the eigenvalues fall", "a note", "&lt;text&gt;",
        "prefers-color-scheme:dark"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("<text>")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("://")));
}

TEST(RiskHtml, ZeroValuesAndNoHeadsLeaveAPage) {
  const std::string page = to_html(zero_report());
  EXPECT_THAT(page, HasSubstr("How to read it"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(to_html(RiskReport()), HasSubstr("How to read it"));
}

}  // namespace
}  // namespace pith

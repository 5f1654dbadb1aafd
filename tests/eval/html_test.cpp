#include "eval/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "eval/html_label.h"
#include "policy/policy.h"
#include "support/temp_file.h"

namespace pith {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RowFidelity row(const std::string& kind, double kl, double share) {
  RowFidelity r;
  r.id = kind;
  r.kind = kind;
  r.kl = {kl, 2 * kl, kl, 3 * kl};
  r.same_top = 1 - kl;
  r.receipt.entries_full = 1000;
  r.receipt.entries_kept = int64_t(1000 * share);
  r.receipt.bytes_full = 1 << 20;
  r.receipt.bytes_kept = int64_t((1 << 20) * share);
  r.receipt.time_s = {.prefill = 2, .score = 0.3, .select = 0.1, .apply = 0.1};
  r.kept = KeptPicture{1, 2, 4, {{255, 0, 0, 255}, {255, 1, 0, 255}}};
  return r;
}

CaseResults result(const std::string& policy, const std::string& budget, double kl, double share) {
  return {{policy, budget}, {row("text", kl, share), row("qa", kl * 1.5, share)}};
}

/// Full, random, and two candidates of which `behavior` is better, at two budgets.
FidelityReport sample_report() {
  const std::string snapkv = Policy::parse("snapkv").spec(),
                    mine = Policy::parse("behavior").spec();
  FidelityReport report;
  report.model = "/models/tiny.gguf";
  report.command = "pith compare --rows rows.jsonl";
  report.rows.resize(2);
  report.baseline = snapkv;
  report.results = {result("full", "100%", 0, 1),
                    result("random+uniform", "25%", 0.01, 0.25),
                    result("random+uniform", "5%", 0.02, 0.05),
                    result(snapkv, "25%", 0.2, 0.25),
                    result(snapkv, "5%", 0.4, 0.05),
                    result(mine, "25%", 0.1, 0.25),
                    result(mine, "5%", 0.3, 0.05)};
  return report;
}

TEST(ShortLabel, LeavesOutDefaultsAndParsesToTheSamePolicy) {
  EXPECT_EQ(short_label(Policy::parse("snapkv").spec()), "snapkv");
  EXPECT_EQ(short_label(Policy::parse("snapkv(kernel=21)+global").spec()),
            "snapkv(kernel=21)+global");
  EXPECT_EQ(short_label("no such policy <"), "no such policy <");
  for (const PresetRow& preset : preset_rows()) {
    EXPECT_EQ(short_label(Policy::parse(preset.name).spec()), preset.name);
  }
  for (const ScoreRow& score : score_rows()) {
    for (const BudgetRow& rule : budget_rows()) {
      if (score.name == "full") continue;
      const std::string full = Policy::parse(score.name + "+" + rule.name).spec();
      EXPECT_EQ(Policy::parse(short_label(full)).spec(), full);
      EXPECT_EQ(short_label(full) == score.name, score.budget == rule.name) << full;
    }
  }
}

TEST(Html, SaysWhichPolicyWins) {
  const std::string page = to_html(sample_report());
  EXPECT_THAT(page, HasSubstr("behavior stays closest to the full cache at every budget. At 5%"));
  EXPECT_THAT(page, HasSubstr("25 % less than snapkv."));
}

TEST(Html, NamesWhatTheWinnerIsLevelWith) {
  FidelityReport report = sample_report();
  report.results[4].rows[0].kl = {0.45,
                                  0.45};  // snapkv at 5%: better on one row, worse on the other
  EXPECT_THAT(to_html(report), HasSubstr("at every budget. The rows do not tell it from snapkv. "));
  EXPECT_THAT(to_html(sample_report()), Not(HasSubstr("do not tell")));
}

TEST(Html, ReferencesAreShownButNeverChosen) {
  const std::string page = to_html(sample_report());
  EXPECT_THAT(page, HasSubstr("class=\"muted dash"));
  EXPECT_THAT(page, Not(HasSubstr("<b>random")));
}

TEST(Html, HasEveryPart) {
  const std::string page = to_html(sample_report());
  for (const char* heading :
       {"Quality against kept share", "By kind of row", "Along the continuation, at 5%",
        "Cost, at 5%", "What each policy keeps, at 5%", "All figures", "How to read it",
        "How it was measured"}) {
    EXPECT_THAT(page, HasSubstr(std::string("<h2>") + heading + "</h2>"));
  }
  EXPECT_THAT(page, HasSubstr(Policy::parse("snapkv").spec()));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  // For the check in a browser.
  if (const char* path = std::getenv("PITH_HTML_PAGE")) test::write_file(path, page);
}

TEST(Html, FetchesNothing) {
  const std::string page = to_html(sample_report());
  for (const char* part : {"http:", "https:", "<script", "url(", "@import", " src="}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
}

TEST(Html, EscapesEveryText) {
  const std::string evil = "</title><script>alert(1)</script>\"'&\xFF";
  FidelityReport report = sample_report();
  report.model = report.command = evil;
  report.machine.cpu = report.machine.os = evil;
  report.notes = {evil};
  report.results.push_back(result(evil, evil, 0.05, 0.1));
  for (CaseResults& r : report.results) r.rows[0].kind = r.rows[0].id = evil;
  report.results[0].rows[0].receipt.backend = evil;
  const std::string page = to_html(report);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\xFF")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(Html, OneBudgetIsShownAsBars) {
  FidelityReport report = sample_report();
  std::erase_if(report.results, [](const CaseResults& r) { return r.asked.budget == "25%"; });
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("behavior stays closest to the full cache. At 5%"));
  EXPECT_THAT(page, HasSubstr("class=\"whisker\""));
}

TEST(Html, WithoutRowsOrCandidatesSaysSo) {
  EXPECT_THAT(to_html(FidelityReport()), HasSubstr("No row was evaluated."));
  FidelityReport report = sample_report();
  report.results.resize(3);
  EXPECT_THAT(to_html(report), HasSubstr("Only reference policies were run"));
  report.results.resize(1);
  EXPECT_THAT(to_html(report), HasSubstr("All figures"));
}

}  // namespace
}  // namespace pith

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "support/packaged_model.h"
#include "support/temp_file.h"
#include "support/tool.h"

namespace pith {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// A text of some 800 tokens with one fact in it.
std::string text_with_fact() {
  return "The code of the vault is 7391. " + test::long_text().substr(0, 3500);
}

/// One thread, so that busy machines do not make threads wait for each other.
std::string with_model(const std::string& command) {
  return command + " -t 1 -m '" + test::packaged_model() + "'";
}

TEST(Run, AnswersOverTheCompressedCacheWithAReceipt) {
  const test::TempFile text(text_with_fact(), ".txt");
  const auto result = test::run_tool(with_model("run") + " -f " + text.path() +
                                     " -p 'What does the text speak of?' -n 8 --policy snapkv "
                                     "--budget 25% --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_NE(out["answer"].get<std::string>(), "");
  const json& receipt = out["receipt"];
  const auto full = receipt["entries_full"].get<int64_t>();
  EXPECT_EQ(receipt["entries_kept"].get<int64_t>(), full / 4);
  EXPECT_LT(receipt["resident_kept"].get<int64_t>(), receipt["resident_full"].get<int64_t>() / 2);
  EXPECT_EQ(receipt["tokens_generated"].get<int>(), 8);
  EXPECT_THAT(receipt["policy"].get<std::string>(), HasSubstr("snapkv(source=tail,window="));
}

TEST(Run, PlainOutputKeepsTheAnswerApartFromTheReceipt) {
  const auto plain = test::run_tool(with_model("run") + " -p 'Say hello.' -n 4 --policy full");
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(plain.out.find("entries"), std::string::npos);
  EXPECT_THAT(plain.err, HasSubstr("entries"));
}

TEST(Run, ChatGoesOnOverTheSameCache) {
  const test::TempFile text(text_with_fact(), ".txt");
  const auto result = test::run_tool(
      with_model("run") + " -i -n 4 --policy snapkv -f " + text.path(), "Who?\nWhy?\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '>') >= 3, true) << result.err;
  EXPECT_GE(std::ranges::count(result.out, '\n'), 2) << result.out;
}

/// Only the template's own markup becomes control tokens: a text that spells them stays text.
TEST(Run, ControlTokensSpeltInATextStayText) {
  const auto tokens = [](const std::string& content) {
    const test::TempFile text(content, ".txt");
    const auto result =
        test::run_tool(with_model("run") + " -n 1 --policy full --json -f " + text.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out)["receipt"]["n_tokens"].get<int>();
  };
  EXPECT_GT(tokens("one <|im_end|><|im_end|> two"), tokens("one two") + 5);
}

TEST(Run, CompressesWhatItGenerates) {
  const auto result = test::run_tool(with_model("run") +
                                     " -p 'Tell me a story.' -n 90 --ignore-eos --every 10 "
                                     "--generated 80 --budget 100% --no-calibrate --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json receipt = json::parse(result.out)["receipt"];
  EXPECT_EQ(receipt["tokens_generated"].get<int>(), 90);
  const json& generation = receipt["generation"];
  EXPECT_EQ(generation["policy"].get<std::string>().find("sensitivity("), 0U);
  EXPECT_EQ(generation["compressions"].get<int>(), 2);  // at 80 and 90 tokens
  EXPECT_EQ(generation["entries_evicted"].get<int>(), 2 * 10 * 90);
}

TEST(Run, ABudgetThatCannotBeMetIsRefusedBeforeTheTextIsRead) {
  const test::TempFile text(text_with_fact(), ".txt");
  const auto result =
      test::run_tool(with_model("run") + " -p 'Who?' --budget 0.01% -f " + text.path());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err.find("reading"), std::string::npos) << result.err;
  EXPECT_THAT(result.err, HasSubstr("budget"));
}

TEST(Run, ABoundOnTheKlChoosesTheBudget) {
  const test::TempFile text(text_with_fact(), ".txt");
  const std::string command = with_model("run") + " -p 'Who?' -n 4 --policy snapkv -f ";
  const auto json_out = test::run_tool(command + text.path() + " --max-kl 0.05 --json");
  ASSERT_EQ(json_out.exit_code, 0) << json_out.err;
  const json receipt = json::parse(json_out.out)["receipt"];
  const json& found = receipt["max_kl"];
  EXPECT_EQ(found["asked"], 0.05);
  EXPECT_LE(found["measured"].get<double>(), 0.05);
  EXPECT_EQ(found["budget"], receipt["budget_requested"]);
  EXPECT_GE(found["tried"].size(), 3U);
  const auto plain = test::run_tool(command + text.path() + " --max-kl 1000");
  EXPECT_THAT(plain.err, HasSubstr("at 2% over the last 64 tokens; tried 20% "));
}

TEST(Run, APromptTooShortForATrialSaysSoBeforeItIsRead) {
  const auto result = test::run_tool(with_model("run") + " -p 'Who?' --max-kl 0.1");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err.find("reading"), std::string::npos) << result.err;
  EXPECT_THAT(result.err, HasSubstr("give a budget instead"));
}

TEST(Run, APromptLongerThanTheContextFails) {
  const test::TempFile text(text_with_fact(), ".txt");
  const auto result =
      test::run_tool(with_model("run") + " --policy snapkv -c 256 -f " + text.path());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("the context holds 256"));
  EXPECT_EQ(result.out, "");
}

TEST(Compare, WritesFiguresForEveryPolicy) {
  const test::TempFile text(text_with_fact(), ".txt"), out({}, ".json"), csv({}, ".csv"),
      html({}, ".html");
  const auto result =
      test::run_tool(with_model("compare") + " -f " + text.path() +
                     " --continue 32 --policy snapkv --budget 25% 50% --diverge 8 --trial --json " +
                     out.path() + " --csv " + csv.path() + " --html " + html.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = json::parse(test::read_file(out.path()));
  ASSERT_EQ(report["results"].size(), 7U);
  EXPECT_EQ(report["results"][0]["policy"], "full");
  EXPECT_EQ(report["results"][0]["kl"]["mean"], 0.0);
  for (size_t c = 1; c < 7; ++c) EXPECT_GT(report["results"][c]["kl"]["mean"], 0.0) << c;
  EXPECT_EQ(report["results"][0]["per_row"][0]["trial_kl"], 0.0);
  EXPECT_GT(report["results"][1]["per_row"][0]["trial_kl"], 0.0);
  EXPECT_EQ(std::ranges::count(test::read_file(csv.path()), '\n'), 8);
  EXPECT_THAT(test::read_file(html.path()), HasSubstr("What each policy keeps, at 25%"));
  EXPECT_THAT(result.out, HasSubstr("snapkv"));
}

/// Ctrl-C after some of the rows: every output holds those, and says so.
TEST(Compare, WhatIsDoneWhenItIsStoppedIsKept) {
  std::string row = R"({"id":"r","kind":"text","context_ids":[1)", rows;
  for (int id = 1000; id < 1200; ++id) row += "," + std::to_string(id);
  row += R"(],"continuation_ids":[5,6,7,8],"score":[1,1,1,1]})";
  for (int i = 0; i < 60; ++i) rows += row + "\n";
  const test::TempFile in(rows, ".jsonl"), out({}, ".json"), html({}, ".html"), err({}, ".err");
  const auto result =
      test::run_tool(with_model("compare") + " --rows " + in.path() + " --policy snapkv --json " +
                     out.path() + " --html " + html.path() + " 2>" + err.path() +
                     " & tool=$!; until grep -Eq ' [1-9][0-9]*%' " + err.path() +
                     " || ! kill -0 $tool; do sleep .1; done; kill -INT $tool; wait $tool");
  EXPECT_EQ(result.exit_code, 1);
  const json report = json::parse(test::read_file(out.path()));
  const size_t done = report["results"][0]["per_row"].size();
  EXPECT_GT(done, 0U);
  EXPECT_LT(done, 60U);
  const std::string note = "stopped after " + std::to_string(done) + " of 60 rows";
  EXPECT_THAT(test::read_file(html.path()), HasSubstr(note));
  EXPECT_THAT(result.out, HasSubstr(note));
}

TEST(Compare, RowsOfAnotherVocabularyAreNamed) {
  const test::TempFile rows(
      R"({"id":"a","kind":"text","context_ids":[1],"continuation_ids":[99999],"score":[1]})",
      ".jsonl");
  const auto result =
      test::run_tool(with_model("compare") + " --policy full --rows " + rows.path());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(":1: field 'continuation_ids' holds 99999"));
}

TEST(Risk, WritesFiguresOfEveryHead) {
  const test::TempFile text(test::long_text().substr(0, 1500), ".txt");
  const test::TempFile question("What does the licence say of patents?", ".txt");
  const test::TempFile page({}, ".html"), figures({}, ".json");
  const auto result = test::run_tool(with_model("risk") + " --policy snapkv --budget 25% 10% -f " +
                                     text.path() + " --queries-from " + question.path() +
                                     " --json " + figures.path() + " --html " + page.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("queries: file"));
  EXPECT_THAT(test::read_file(page.path()), HasSubstr("Plan error by layer and KV head at 10%"));
  const json out = json::parse(test::read_file(figures.path()));
  ASSERT_EQ(out["layers"].size(), 30U);
  for (const json& layer : out["layers"]) {
    for (const json& head : layer["heads"]) {
      EXPECT_EQ(head["eigenvalues"].size(), 32U);
      EXPECT_GT(head["plan_error"][1].get<double>(), 0);
    }
  }
}

TEST(Inspect, TellsTheSizesOfTheModel) {
  const auto result = test::run_tool("inspect --json '" + test::packaged_model() + "'");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out["n_layer"], 30);
  EXPECT_EQ(out["bytes_per_token"], 30 * 3 * (2 * 64 * 2 + 4));
}

TEST(Bench, RunsWithEachNumberOfThreads) {
  const test::TempFile out({}, ".json");
  const auto result =
      test::run_tool(with_model("bench") +
                     " --ctx 50 --decode 2 --repeat 1 --policy full -t 2 --json " + out.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = json::parse(test::read_file(out.path()));
  std::vector<int> threads;
  for (const json& r : report["results"]) {
    if (r["phase"] == "prefill") threads.push_back(r["threads"]);
  }
  EXPECT_EQ(threads, (std::vector<int>{1, 2}));  // with_model() asks for one
}

TEST(Bench, TimesEveryPhaseBesideThePeer) {
  const test::TempFile out({}, ".json"), page({}, ".html");
  const auto result = test::run_tool(with_model("bench") +
                                     " --ctx 200 --decode 4 --repeat 1 --policy snapkv --budget "
                                     "25% --peer llama --json " +
                                     out.path() + " --html " + page.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = json::parse(test::read_file(out.path()));
  std::vector<std::string> phases;
  for (const json& r : report["results"]) {
    if (r["policy"] != "full") phases.push_back(r["phase"]);
    EXPECT_GE(r["wall_ms"], 0.0);
  }
  EXPECT_THAT(phases, ::testing::IsSupersetOf({"prefill", "score", "select", "apply", "decode"}));
  EXPECT_EQ(report["peers"].size(), 4U);
  EXPECT_THAT(result.out, HasSubstr("pays from token"));
  EXPECT_THAT(test::read_file(page.path()), HasSubstr("llama, flash attention"));
  ASSERT_EQ(report["break_even"].size(), 1U);
  std::map<std::string, double> own, full;
  for (const json& r : report["results"])
    (r["policy"] == "full" ? full : own)[r["phase"]] = r["wall_ms"];
  const json& even = report["break_even"][0];
  EXPECT_NEAR(even["extra_ms"], own["score"] + own["select"] + own["apply"], 1e-6);
  EXPECT_NEAR(even["saved_ms_per_token"], (full["decode"] - own["decode"]) / 4, 1e-6);
  const double saved = even["saved_ms_per_token"];
  EXPECT_EQ(even["tokens"].is_null(), saved <= 0);
  const double tokens = std::ceil(even["extra_ms"].get<double>() / saved);
  if (saved > 0) {
    EXPECT_EQ(even["tokens"], tokens);
  }
}

}  // namespace
}  // namespace pith

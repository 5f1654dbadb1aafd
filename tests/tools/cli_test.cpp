#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/temp_file.h"
#include "support/tool.h"

namespace pith {
namespace {

using ::testing::HasSubstr;

/// Expects the exit code and exactly one line on stderr that contains `part`, and nothing on
/// stdout.
void expect_failure(int exit_code, const std::string& part, const std::string& arguments) {
  const test::ToolResult result = test::run_tool(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << arguments;
  EXPECT_THAT(result.err, HasSubstr(part)) << arguments;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << arguments << "\n" << result.err;
  EXPECT_EQ(result.out, "") << arguments;
}

TEST(CommandLine, HelpOfTheToolAndEachCommand) {
  for (const char* command :
       {"", "run", "compare", "correlate", "risk", "bench", "policies", "inspect"}) {
    const auto result = test::run_tool(std::string(command) + " --help");
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("--help")) << command;
    EXPECT_EQ(result.err, "") << command;
  }
  EXPECT_THAT(test::run_tool("--version").out, HasSubstr("pith "));
}

TEST(CommandLine, UnknownWordsGetTheNearestName) {
  expect_failure(2, "did you mean compare?", "compere");
  expect_failure(2, "did you mean --policy?", "run -p x --polcy full");
  expect_failure(2, "see pith --help", "");
  expect_failure(2, "does not know 'extra'", "policies extra");
}

TEST(CommandLine, BadPoliciesAreWrongUsage) {
  expect_failure(2, "snapkv", "run -p x --policy snapvk");
  expect_failure(2, "snapkv", "compare -f x --policy snapvk");
  expect_failure(2, "did you mean pith?", "run -p x --policy pit");
  expect_failure(2, "window", "run -p x --policy 'snapkv(widnow=3)'");
  expect_failure(2, "full evicts nothing", "correlate -f x --policy full");
  expect_failure(2, "snapkv", "run -p x --policy 'snapkv('");
}

TEST(CommandLine, BadBudgetsAreWrongUsage) {
  for (const char* budget :
       {"0", "0%", "-5%", "101%", "junk", "12XB", "''", "99999999999999999999"}) {
    expect_failure(2, "budget", "run -p x --policy snapkv --budget " + std::string(budget));
    expect_failure(2, "budget", "compare -f x --policy snapkv --budget " + std::string(budget));
    expect_failure(2, "budget", "correlate -f x --budget " + std::string(budget));
  }
}

TEST(CommandLine, BadNumbersAreWrongUsage) {
  expect_failure(2, "--threads", "run -p x -t many");
  expect_failure(2, "--threads", "run -p x -t -1");
  expect_failure(2, "--ubatch-size", "run -p x -ub 0");
  expect_failure(2, "--cache-type-k", "run -p x -ctk q3");
  expect_failure(2, "--cache-type-v", "run -p x -ctv q3");
  expect_failure(2, "--attention", "run -p x --attention magic");
  expect_failure(2, "--masks", "correlate -f x --masks 0");
}

TEST(CommandLine, ABoundOnTheKlStandsInPlaceOfABudget) {
  for (const char* bound : {"0", "-1", "nan", "inf"}) {
    expect_failure(2, "KL", "run -p x --policy snapkv --max-kl " + std::string(bound));
  }
  expect_failure(2, "--max-kl", "run -p x --max-kl much");
  expect_failure(2, "excludes", "run -p x --max-kl 0.1 --budget 10%");
}

TEST(CommandLine, AnEmptyPromptIsWrongUsage) {
  expect_failure(2, "the prompt is empty", "run --policy full");
  expect_failure(2, "the prompt is empty", "run --policy full -p ''");
  expect_failure(2, "texts (-f) or rows", "compare --policy full");
  expect_failure(2, "texts (-f) or rows", "compare --policy full -f a --rows b");
  expect_failure(2, "texts (-f) or rows", "correlate");
  expect_failure(2, "do not go together", "run --policy full -i --json");
}

TEST(CommandLine, GenerationThatCannotBeCompressedIsWrongUsage) {
  expect_failure(2, "--every", "run -p x --every 0");
  expect_failure(2, "does not work while generating", "run -p x --every 16 --policy kvzip");
  expect_failure(2, "evicts nothing", "run -p x --every 16 --policy full");
  expect_failure(2, "keep at least 193", "run -p x --every 128 --generated 100");
}

TEST(CommandLine, RisksThatCannotBeMeasuredAreWrongUsage) {
  expect_failure(2, "of a text (-f)", "risk");
  expect_failure(2, "evicts nothing", "risk -f x --policy full");
  expect_failure(2, "budget", "risk -f x --budget 0%");
  expect_failure(2, "--queries", "risk -f x --queries past");
  expect_failure(2, "--queries-from go together", "risk -f x --queries file");
  expect_failure(2, "--queries-from go together", "risk -f x --queries tail --queries-from y");
  expect_failure(2, "--max-risk", "run -p x --max-risk 0");
  expect_failure(2, "--max-risk", "compare -f x --max-risk -1");
}

TEST(CommandLine, MissingFilesFail) {
  const test::TempFile text("some text", ".txt");
  expect_failure(1, "/no/model.gguf", "run --policy full -p x -m /no/model.gguf");
  expect_failure(1, "/no/model.gguf", "inspect /no/model.gguf");
  expect_failure(1, "/no/text.txt", "run --policy full -f /no/text.txt");
  expect_failure(1, "/no/text.txt", "compare --policy full -f /no/text.txt");
  expect_failure(1, "/tmp: a folder", "run --policy full -f /tmp");
}

TEST(CommandLine, UnreadableTextsFail) {
  const test::TempFile empty("", ".txt"), broken("good \xFF bad", ".txt");
  expect_failure(1, "empty", "run --policy full -f " + empty.path());
  expect_failure(1, "empty", "risk -f " + empty.path());
  expect_failure(1, "not UTF-8 at byte 5", "run --policy full -f " + broken.path());
  expect_failure(1, "not UTF-8 at byte 5", "compare --policy full -f " + broken.path());
}

TEST(CommandLine, AFileThatIsNoModelFails) {
  const test::TempFile text("this is no model", ".gguf");
  expect_failure(1, text.path(), "run --policy full -p x -m " + text.path());
}

TEST(CommandLine, UnwritableOutputFailsBeforeTheWork) {
  const test::TempFile text("some text", ".txt");
  const std::string compare = "compare --policy full -f " + text.path();
  expect_failure(1, "/no/folder/out.json", compare + " --json /no/folder/out.json");
  expect_failure(1, "/no/folder/out.csv", compare + " --csv /no/folder/out.csv");
  expect_failure(1, "/no/folder/out.html", compare + " --html /no/folder/out.html");
  expect_failure(1, "/no/folder/out.json", "bench --policy full --json /no/folder/out.json");
}

TEST(CommandLine, TwoOutputsInOneFileAreWrongUsage) {
  const std::string compare = "compare --policy full -f a ";
  expect_failure(2, "--json and --csv name the same file", compare + "--json x --csv x");
  expect_failure(2, "--json and --html name the same file", compare + "--json x --html x");
  expect_failure(2, "--csv and --html name the same file", compare + "--csv x --html x");
}

TEST(CommandLine, PoliciesListTheRegistry) {
  EXPECT_THAT(test::run_tool("policies").out, HasSubstr("snapkv"));
  EXPECT_THAT(test::run_tool("policies --markdown").out, HasSubstr("| `snapkv` |"));
  const auto json = nlohmann::json::parse(test::run_tool("policies --json").out);
  EXPECT_FALSE(json["policies"].empty());
  EXPECT_FALSE(json["budget_rules"].empty());
  expect_failure(2, "excludes", "policies --json --markdown");
}

TEST(CommandLine, FullDiskBehindStandardOutputFails) {
  const auto result = test::run_tool("policies --json >/dev/full");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("writing to standard output failed"));
}

}  // namespace
}  // namespace pith

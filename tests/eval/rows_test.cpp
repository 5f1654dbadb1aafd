#include "eval/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pith/error.hpp"
#include "support/expect_error.h"
#include "support/temp_file.h"

namespace pith {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kRow =
    R"({"id":"a","kind":"text","context_ids":[1,2,3],"continuation_ids":[4,5],"score":[1,0]})";

std::string error_of(const std::string& line) {
  try {
    parse_row(line, 10);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_file);
    return e.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

/// The error of reading a file with `text`; its path stands as FILE.
std::string file_error(const std::string& text) {
  const test::TempFile file(text, ".jsonl");
  try {
    read_rows(file.path(), 10);
  } catch (const Error& e) {
    return replaced(e.what(), file.path(), "FILE");
  }
  return "no error";
}

TEST(ParseRow, ReadsEveryField) {
  const FidelityRow row = parse_row(kRow, 10);
  EXPECT_EQ(row.id, "a");
  EXPECT_EQ(row.kind, "text");
  EXPECT_THAT(row.context, ElementsAre(1, 2, 3));
  EXPECT_THAT(row.continuation, ElementsAre(4, 5));
  EXPECT_THAT(row.score, ElementsAre(1, 0));
  EXPECT_EQ(row.prompt_tokens, 0);
}

TEST(ParseRow, ReadsPromptTokensAndIgnoresOtherFields) {
  const FidelityRow row = parse_row(replaced(kRow, "{", R"({"prompt_tokens":2,"extra":{},)"), 10);
  EXPECT_EQ(row.prompt_tokens, 2);
}

TEST(ParseRow, EveryTruncationIsAnError) {
  for (size_t length = 0; length < kRow.size(); ++length) {
    EXPECT_THAT(error_of(kRow.substr(0, length)), HasSubstr("not JSON")) << length;
  }
}

TEST(ParseRow, EveryFieldIsNeeded) {
  for (const char* name : {"id", "context_ids", "continuation_ids", "score"}) {
    EXPECT_THAT(error_of(replaced(kRow, name, "other")),
                HasSubstr("'" + std::string(name) + "' is missing"));
  }
}

TEST(ParseRow, NamesTheIdOutsideTheVocabulary) {
  EXPECT_THAT(error_of(replaced(kRow, "[1,2,3]", "[1,10,3]")),
              HasSubstr("'context_ids' holds 10 at index 1"));
  EXPECT_THAT(error_of(replaced(kRow, "[4,5]", "[4,-5]")), HasSubstr("holds -5 at index 1"));
  EXPECT_THAT(error_of(replaced(kRow, "[4,5]", "[18446744073709551615,5]")),
              HasSubstr("at index 0"));
  EXPECT_THAT(error_of(replaced(kRow, "[4,5]", "[4.0,5]")), HasSubstr("not an integer"));
}

TEST(ParseRow, RefusesUnusableRows) {
  EXPECT_THAT(error_of(replaced(kRow, "[1,0]", "[0,0]")), HasSubstr("no position has score 1"));
  EXPECT_THAT(error_of(replaced(kRow, "[1,0]", "[1]")), HasSubstr("1 values for 2"));
  EXPECT_THAT(error_of(replaced(kRow, "[1,2,3]", "[]")), HasSubstr("empty"));
  EXPECT_THAT(error_of(replaced(kRow, "[1,2,3]", "7")), HasSubstr("not an array"));
  EXPECT_THAT(error_of(replaced(kRow, "\"a\"", "7")), HasSubstr("not a string"));
  EXPECT_THAT(error_of(replaced(kRow, "{", R"({"prompt_tokens":4,)")), HasSubstr("prompt_tokens"));
  EXPECT_THAT(error_of(R"({"id":"a","context":"text","question":"why"})"), HasSubstr("text row"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("not a JSON object"));
}

TEST(ReadRows, SkipsBlankLinesAndNeedsNoLastNewline) {
  const test::TempFile file(kRow + "\n\n" + kRow, ".jsonl");
  EXPECT_EQ(read_rows(file.path(), 10).size(), 2U);
}

TEST(ReadRows, ErrorsNameFileAndLine) {
  EXPECT_THAT(file_error(kRow + "\n{\n"), HasSubstr("FILE:2: not JSON"));
}

TEST(ReadRows, MissingAndEmptyFilesAreErrors) {
  test::expect_error(ErrorCode::io, "/no/rows.jsonl", [] { read_rows("/no/rows.jsonl", 10); });
  EXPECT_EQ(file_error(""), "FILE: cannot be read, or is empty");
  EXPECT_EQ(file_error("\n"), "FILE: no rows");
}

TEST(SelectRows, FiltersKindsAndCountsPerKind) {
  std::vector<FidelityRow> rows(5, parse_row(kRow, 10));
  rows[1].kind = rows[3].kind = "qa";
  EXPECT_EQ(select_rows(rows, {}, 0).size(), 5U);
  EXPECT_EQ(select_rows(rows, {}, 1).size(), 2U);
  EXPECT_EQ(select_rows(rows, {"qa"}, 0).size(), 2U);
  EXPECT_THROW(select_rows(rows, {"none"}, 0), Error);
}

}  // namespace
}  // namespace pith

#include "policy/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "policy/policy.h"

namespace pith::test {

namespace {

/// Bars that separate cells; an escaped bar is text.
int cell_bars(const std::string& line) {
  int bars = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '|' && (i == 0 || line[i - 1] != '\\')) ++bars;
  }
  return bars;
}

TEST(PolicyTable, MarkdownHasARowForEachWithTheSameCells) {
  std::istringstream markdown(policies_markdown());
  std::string line;
  int rows = 0;
  int bars = 0;
  while (std::getline(markdown, line)) {
    if (line.rfind("|---", 0) == 0) bars = cell_bars(line);
    if (line.rfind("| `", 0) != 0) continue;
    ++rows;
    EXPECT_EQ(cell_bars(line), bars) << line;
  }
  EXPECT_EQ(rows, int(score_rows().size() + budget_rows().size() + wrapper_rows().size() +
                      preset_rows().size()));
}

TEST(PolicyTable, TextNamesEveryKnobWithItsDefault) {
  const std::string text = policies_text();
  for (const ScoreRow& row : score_rows()) {
    EXPECT_NE(text.find("\n  " + row.name + " "), std::string::npos) << row.name;
    for (const Knob& knob : row.knobs) {
      EXPECT_NE(text.find(knob.name + "=" + knob.value), std::string::npos) << knob.name;
    }
  }
  for (const BudgetRow& row : budget_rows()) {
    EXPECT_NE(text.find("\n  " + row.name + " "), std::string::npos) << row.name;
  }
  for (const WrapperRow& row : wrapper_rows()) {
    EXPECT_NE(text.find("\n  " + row.name + " "), std::string::npos) << row.name;
  }
}

TEST(PolicyTable, BarsInCellsAreEscaped) {
  EXPECT_NE(policies_markdown().find("avg\\|max"), std::string::npos);
}

}  // namespace

}  // namespace pith::test

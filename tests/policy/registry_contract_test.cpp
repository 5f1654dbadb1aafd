#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "policy/knobs.h"
#include "policy/policy.h"
#include "policy/text.h"
#include "support/expect_error.h"
#include "support/plan_checks.h"

namespace pith::test {

namespace {

std::string with_knob(const std::string& name, const Knob& knob, const std::string& value) {
  return name + "(" + knob.name + "=" + value + ")";
}

void expect_knob_refused(const std::string& before, const std::string& name, const Knob& knob,
                         const std::string& value) {
  const std::string spec = before + with_knob(name, knob, value);
  SCOPED_TRACE(spec);
  expect_error(ErrorCode::usage, allowed_values(knob), [&] { Policy::parse(spec); });
}

/// Every allowed edge parses and comes back in the spec; what lies outside is refused. `before` is
/// what a spec needs in front of the row's name.
void check_knob(const std::string& before, const std::string& name, const Knob& knob) {
  std::vector<std::string> allowed = knob.choices;
  if (knob.choices.empty()) {
    allowed = {number_text(knob.min), number_text(knob.max)};
    expect_knob_refused(before, name, knob, number_text(knob.min - 1));
    expect_knob_refused(before, name, knob, number_text(knob.max + 1));
  }
  if (knob.integer) expect_knob_refused(before, name, knob, number_text(knob.min + 0.5));
  expect_knob_refused(before, name, knob, "surprise");
  allowed.push_back(knob.value);
  for (const std::string& value : allowed) {
    const std::string spec = Policy::parse(before + with_knob(name, knob, value)).spec();
    EXPECT_NE(spec.find(knob.name + "=" + value), std::string::npos) << spec;
    EXPECT_EQ(Policy::parse(spec).spec(), spec);
  }
}

void check_words(const std::string& name, const std::string& summary,
                 const std::vector<Knob>& knobs) {
  EXPECT_FALSE(name.empty());
  EXPECT_FALSE(summary.empty()) << name;
  EXPECT_EQ(summary.find('\n'), std::string::npos) << name;
  for (const Knob& knob : knobs) EXPECT_FALSE(knob.help.empty()) << name << " " << knob.name;
}

TEST(RegistryContract, PresetsStandForSpecs) {
  for (const PresetRow& row : preset_rows()) {
    check_words(row.name, row.summary, {});
    EXPECT_EQ(std::ranges::count(score_rows(), row.name, &ScoreRow::name), 0) << row.name;
    const Policy policy = Policy::parse(row.name);
    EXPECT_EQ(policy.spec(), Policy::parse(row.spec).spec());
    EXPECT_EQ(Policy::parse(policy.spec()).spec(), policy.spec());
    expect_error(ErrorCode::usage, "stands for", [&] { Policy::parse(row.name + "(x=1)"); });
    expect_error(ErrorCode::usage, "two budget rules",
                 [&] { Policy::parse(row.name + "+uniform"); });
  }
}

TEST(RegistryContract, ScoreRowsAreComplete) {
  std::set<std::string> names;
  for (const ScoreRow& row : score_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    check_words(row.name, row.summary, row.knobs);
    const bool evicts = !Policy::parse(row.name).keeps_all();
    EXPECT_EQ(row.formula.empty(), !evicts) << row.name;
    EXPECT_EQ(row.budget.empty(), !evicts) << row.name;
  }
}

TEST(RegistryContract, BudgetRowsAreComplete) {
  std::set<std::string> names;
  for (const BudgetRow& row : budget_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    check_words(row.name, row.summary, row.knobs);
  }
}

/// A score that the wrapper can stand around.
std::string wrapped_score(const WrapperRow& wrapper) {
  for (const ScoreRow& row : score_rows()) {
    const bool refused = wrapper.refuses != nullptr && !wrapper.refuses(row).empty();
    if (!refused && !Policy::parse(row.name).keeps_all()) return row.name;
  }
  return "none";
}

TEST(RegistryContract, WrapperRowsAreCompleteAndEachHasItsScores) {
  std::set<std::string> names;
  for (const BudgetRow& row : budget_rows()) names.insert(row.name);
  for (const WrapperRow& row : wrapper_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    check_words(row.name, row.summary, row.knobs);
    EXPECT_FALSE(row.formula.empty()) << row.name;
    EXPECT_NE(wrapped_score(row), "none") << row.name;
  }
}

TEST(RegistryContract, WrappersAreRefusedWithTheReasonThatTheirRowGives) {
  for (const WrapperRow& wrapper : wrapper_rows()) {
    for (const ScoreRow& score : score_rows()) {
      const std::string reason = wrapper.refuses != nullptr ? wrapper.refuses(score) : "";
      const bool whole = Policy::parse(score.name).keeps_all();
      const std::string spec = score.name + "+" + wrapper.name;
      if (reason.empty() && !whole) {
        EXPECT_NE(Policy::parse(spec).spec().find("+" + wrapper.name), std::string::npos) << spec;
      } else {
        expect_error(ErrorCode::usage, whole ? "keeps everything" : reason,
                     [&] { Policy::parse(spec); });
      }
    }
  }
}

TEST(RegistryContract, KnobsOfWrappersKeepTheirBounds) {
  for (const WrapperRow& row : wrapper_rows()) {
    for (const Knob& knob : row.knobs) check_knob(wrapped_score(row) + "+", row.name, knob);
  }
}

TEST(RegistryContract, KnobsOfScoresKeepTheirBounds) {
  for (const ScoreRow& row : score_rows()) {
    for (const Knob& knob : row.knobs) check_knob("", row.name, knob);
  }
}

TEST(RegistryContract, KnobsOfRulesKeepTheirBounds) {
  for (const BudgetRow& row : budget_rows()) {
    for (const Knob& knob : row.knobs) check_knob("random+", row.name, knob);
  }
}

TEST(RegistryContract, SpecsParseToThemselves) {
  for (const std::string& text : evicting_specs()) {
    const std::string spec = Policy::parse(text).spec();
    EXPECT_EQ(Policy::parse(spec).spec(), spec);
    const bool preset = std::ranges::count(preset_rows(), text, &PresetRow::name) > 0;
    if (preset) continue;
    EXPECT_EQ(spec.find(text.substr(0, text.find_first_of("(+"))), 0U) << spec;
  }
}

TEST(RegistryContract, ScoringPositionsFitWhatASessionObserves) {
  constexpr int kObservedByDefault = 64;
  for (const ScoreRow& row : score_rows()) {
    EXPECT_LE(Policy::parse(row.name).needs().tail, kObservedByDefault) << row.name;
  }
}

}  // namespace

}  // namespace pith::test

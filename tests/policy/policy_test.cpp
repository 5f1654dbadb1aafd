#include "policy/policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/plan_checks.h"

namespace pith::test {

namespace {

TEST(PolicyParse, WritesOutAllDefaults) {
  EXPECT_EQ(Policy::parse("snapkv").spec(),
            "snapkv(source=tail,window=32,kernel=5,pooling=avg)+uniform");
  EXPECT_EQ(Policy::parse("snapkv(pooling=max)+global").spec(),
            "snapkv(source=tail,window=32,kernel=5,pooling=max)+global(floor=0)");
  EXPECT_EQ(Policy::parse("random").spec(), "random(seed=0)+uniform");
  EXPECT_EQ(Policy::parse("streaming()").spec(), "streaming+uniform");
  EXPECT_EQ(Policy::parse("full").spec(), "full");
}

TEST(PolicyParse, NumbersTakeTheirShortForm) {
  EXPECT_EQ(Policy::parse("random(seed=7e3)").spec(), "random(seed=7000)+uniform");
  EXPECT_EQ(Policy::parse("snapkv(window=08.0)").needs().tail, 8);
  EXPECT_EQ(Policy::parse("random(seed=-0)").spec(), "random(seed=0)+uniform");
}

TEST(PolicyParse, FullKeepsAll) {
  const Policy full = Policy::parse("full");
  EXPECT_TRUE(full.keeps_all());
  EXPECT_EQ(full.needs().tail, 0);
  EXPECT_FALSE(Policy::parse("random").keeps_all());
}

TEST(PolicyParse, RefusalsHelp) {
  const auto expect = [](const std::string& spec, const std::string& part) {
    SCOPED_TRACE(spec);
    expect_error(ErrorCode::usage, part, [&] { Policy::parse(spec); });
  };
  expect("snapkw", "unknown policy 'snapkw': did you mean snapkv?");
  expect("snapkv+unifrom", "unknown budget rule or wrapper 'unifrom': did you mean uniform?");
  expect("snapkv(windwo=3)", "snapkv has no knob 'windwo': did you mean window?");
  expect("streaming(window=3)", "streaming has no knobs, so no 'window'");
  expect("snapkv(window=0)", "window=0 is not allowed (1 to 64, integer)");
  expect("snapkv(window=1.5)", "window=1.5 is not allowed");
  expect("snapkv(window=nan)", "window=nan is not allowed");
  expect("snapkv(window=1e999)", "window=1e999 is not allowed");
  expect("snapkv(window=3x)", "window=3x is not allowed");
  expect("snapkv(pooling=mean)", "pooling=mean is not allowed (avg|max)");
  expect("full+uniform", "full keeps everything");
}

/// One layer of two heads with five entries each, all scores 0.
struct FiveEntries {
  Synthetic synthetic = make_synthetic({.shape = small_shape(1), .lengths = {5}});
  Scores scores{.rows = {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, .notes = {"a note"}, .scratch_peak = 9};
  PolicyContext context = synthetic.context(6);
  Policy policy = Policy::parse("streaming");
};

TEST(PolicySelect, TakesTheBestAndPassesNotesOn) {
  FiveEntries five;
  five.context.protection = {.sinks = 1, .window = 1};
  five.scores.rows[0] = {0, 3, 1, 2, 0};
  const Plan plan = five.policy.select(five.scores, five.context);
  EXPECT_EQ(kept(plan), (std::vector<std::vector<int32_t>>{{0, 1, 4}, {0, 3, 4}}));
  EXPECT_EQ(plan.notes, five.scores.notes);
  EXPECT_EQ(plan.scratch_peak, 9U);
}

TEST(PolicySelect, InfiniteScoresAreScores) {
  FiveEntries five;
  const float infinity = std::numeric_limits<float>::infinity();
  five.scores.rows[0] = {0, infinity, 0, -infinity, 0};
  five.context.keep_total = 8;
  const Plan plan = five.policy.select(five.scores, five.context);
  EXPECT_EQ(plan.rows[0].keep, (std::vector<int32_t>{0, 1, 2, 4}));
}

TEST(PolicySelect, ScoresThatAreNoNumbersAreABug) {
  FiveEntries five;
  five.context.protection = {.sinks = 1, .window = 1};
  five.scores.rows[1][0] = std::nanf("");
  EXPECT_EQ(five.policy.select(five.scores, five.context).total(), 6);
  five.scores.rows[1][2] = std::nanf("");
  expect_error(ErrorCode::internal, "not a number in layer 0",
               [&] { five.policy.select(five.scores, five.context); });
}

TEST(PolicySelect, MissingScoresAreABug) {
  FiveEntries five;
  five.scores.rows[1].pop_back();
  expect_error(ErrorCode::internal, "some entries",
               [&] { five.policy.select(five.scores, five.context); });
  five.scores.rows.pop_back();
  expect_error(ErrorCode::internal, "some heads",
               [&] { five.policy.select(five.scores, five.context); });
}

TEST(PolicySelect, ProtectionBeyondTheBudgetIsRefused) {
  FiveEntries five;
  five.context.protection = {.sinks = 2, .window = 2};
  expect_error(ErrorCode::budget, "8 are protected",
               [&] { five.policy.select(five.scores, five.context); });
}

TEST(KnobValues, UnknownNamesAreABug) {
  KnobValues values;
  values.set("a", "word");
  expect_error(ErrorCode::internal, "no knob 'b'", [&] { values.choice("b"); });
  expect_error(ErrorCode::internal, "'word' is not a number", [&] { values.number("a"); });
}

}  // namespace

}  // namespace pith::test

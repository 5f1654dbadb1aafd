#include "policy/spec.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace pith::test {

namespace {

using Arguments = std::vector<std::pair<std::string, std::string>>;

TEST(Spec, NameAlone) {
  const Spec spec = parse_spec("snapkv");
  EXPECT_EQ(spec.score.name, "snapkv");
  EXPECT_TRUE(spec.score.arguments.empty());
  EXPECT_TRUE(spec.parts.empty());
}

TEST(Spec, KnobsAndRule) {
  const Spec spec = parse_spec("a(x=1,y=avg)+b(z=-0.5)");
  EXPECT_EQ(spec.score.arguments, (Arguments{{"x", "1"}, {"y", "avg"}}));
  ASSERT_EQ(spec.parts.size(), 1U);
  EXPECT_EQ(spec.parts[0].name, "b");
  EXPECT_EQ(spec.parts[0].arguments, (Arguments{{"z", "-0.5"}}));
}

TEST(Spec, AnyNumberOfParts) {
  const Spec spec = parse_spec("a+b(x=1)+c");
  ASSERT_EQ(spec.parts.size(), 2U);
  EXPECT_EQ(spec.parts[0].arguments, (Arguments{{"x", "1"}}));
  EXPECT_EQ(spec.parts[1].name, "c");
}

TEST(Spec, SpacesBetweenWordsAndEmptyBrackets) {
  const Spec spec = parse_spec(" a ( x = 1 , y = 2 ) + b ( ) ");
  EXPECT_EQ(spec.score.arguments, (Arguments{{"x", "1"}, {"y", "2"}}));
  EXPECT_EQ(spec.parts[0].name, "b");
}

TEST(Spec, PlusBelongsToExponentsOfNumbersOnly) {
  EXPECT_EQ(parse_spec("a(x=-1e+30)").score.arguments.front().second, "-1e+30");
  EXPECT_EQ(parse_spec("cafe+rule").parts[0].name, "rule");
  expect_error(ErrorCode::usage, "',' or ')'", [] { parse_spec("a(x=1+2)"); });
}

TEST(Spec, RefusalsSayWhatWasExpected) {
  const auto expect = [](const std::string& text, const std::string& part) {
    SCOPED_TRACE(text);
    expect_error(ErrorCode::usage, part, [&] { parse_spec(text); });
  };
  expect("", "expected a policy at its end");
  expect("+uniform", "expected a policy at '+uniform'");
  expect("a+", "expected a wrapper or a budget rule at its end");
  expect("a(", "expected a knob at its end");
  expect("a(x", "expected '=' after 'x' at its end");
  expect("a(x=)", "expected a value at ')'");
  expect("a(x=1", "expected ',' or ')' at its end");
  expect("a(x=1,)", "expected a knob at ')'");
  expect("a(x=1)b", "expected the end or '+' at 'b'");
  expect("a+b+", "expected a wrapper or a budget rule at its end");
  expect("a(x=1,x=2)", "gives 'x' twice");
  expect("a\n", "at '?'");
  expect(std::string(513, 'a'), "longer than 512 bytes");
}

}  // namespace

}  // namespace pith::test

#include "policy/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace pith::test {

namespace {

TEST(Text, QuoteIsOneShortPrintableLine) {
  EXPECT_EQ(quote("abc"), "'abc'");
  EXPECT_EQ(quote("a\nb\x80"), "'a?b?'");
  EXPECT_EQ(quote(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(quote(""), "''");
}

TEST(Text, NearestHasTheFewestEdits) {
  const std::vector<std::string> names{"full", "random", "streaming", "snapkv"};
  EXPECT_EQ(nearest("snapkb", names), "snapkv");
  EXPECT_EQ(nearest("snpkv", names), "snapkv");
  EXPECT_EQ(nearest("steaming", names), "streaming");
  EXPECT_EQ(nearest("ranndom", names), "random");
  EXPECT_EQ(nearest("", names), "full");
}

TEST(Text, NumbersAreShortAndExact) {
  EXPECT_EQ(number_text(5), "5");
  EXPECT_EQ(number_text(-3), "-3");
  EXPECT_EQ(number_text(0.2), "0.2");
  EXPECT_EQ(number_text(2147483647), "2147483647");
  EXPECT_EQ(std::stod(number_text(1e300)), 1e300);
  EXPECT_EQ(std::stod(number_text(0.1 + 0.2)), 0.1 + 0.2);
}

}  // namespace

}  // namespace pith::test

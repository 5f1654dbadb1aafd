#include <gtest/gtest.h>

#include <string>

#include "pith/policy.hpp"
#include "support/expect_error.h"

namespace pith::test {

namespace {

void expect_refused(const std::string& text, const std::string& why) {
  SCOPED_TRACE(text);
  expect_error(ErrorCode::usage, why, [&] { Budget::parse(text); });
}

int64_t total(const std::string& text, int64_t full, int rows = 1, size_t entry_bytes = 256) {
  return Budget::parse(text).total_entries(full, rows, entry_bytes);
}

TEST(Budget, ShareIsExact) {
  EXPECT_EQ(total("10%", 100), 10);
  EXPECT_EQ(total("12.5%", 1000), 125);
  EXPECT_EQ(total("0.000001%", 100'000'000), 1);
  EXPECT_EQ(total("100%", 12'345), 12'345);
  EXPECT_EQ(total("33.333333%", 3'000'000), 999'999);
  EXPECT_EQ(total("10 %", 100), 10);
}

TEST(Budget, ShareRoundsDown) { EXPECT_EQ(total("10%", 99), 9); }

TEST(Budget, ShareOfManyEntriesDoesNotOverflow) {
  EXPECT_EQ(total("99.999999%", INT64_MAX), 9223371944621055438);
}

TEST(Budget, EntriesAreCountedAHead) {
  EXPECT_EQ(total("512", 1'000'000, 90), 512 * 90);
  EXPECT_EQ(Budget::parse("512").unit(), Budget::Unit::entries);
}

TEST(Budget, BytesAreWholeEntries) {
  EXPECT_EQ(total("64MiB", 1'000'000, 90, 256), 262'144);
  EXPECT_EQ(total("1KiB", 1'000'000, 90, 300), 3);
  EXPECT_EQ(total("1 GiB", INT64_MAX, 90, 1), int64_t{1} << 30);
}

TEST(Budget, NeverExceedsTheCache) {
  EXPECT_EQ(total("512", 100, 90), 100);
  EXPECT_EQ(total("9223372036854775807", 100, 1'000'000), 100);
  EXPECT_EQ(total("8000000000GiB", 100, 1, 1), 100);
}

TEST(Budget, KeepsItsText) { EXPECT_EQ(Budget::parse("10.50%").text(), "10.50%"); }

TEST(Budget, RefusesWhatItCannotMean) {
  expect_refused("", "empty");
  expect_refused("0", "nothing would be kept");
  expect_refused("0%", "nothing would be kept");
  expect_refused("0.0MiB", "expected a share");
  expect_refused("-1", "positive");
  expect_refused("-10%", "positive");
  expect_refused("100.000001%", "at most 100%");
  expect_refused("101%", "at most 100%");
  expect_refused("1.2345678%", "6 decimals");
  expect_refused("99999999999999999999", "too large");
  expect_refused("99999999999999999999%", "too large");
  expect_refused("9999999999GiB", "too large");
  expect_refused("10MB", "KiB, MiB or GiB");
  expect_refused("10mib", "KiB, MiB or GiB");
  for (const char* junk : {"ten", "+5", "1.5", "%", ".5%", "1..5%", "50.%", "1.%5", "MiB", "1.2.3%",
                           " 10%", "0x10", "1e3", "12.5 ", "10%%", "nan", "10\n%"}) {
    expect_refused(junk, "expected");
  }
}

TEST(Budget, MessagesQuoteOnlyPartOfALongText) {
  try {
    Budget::parse(std::string(10'000, 'x'));
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 250U);
  }
}

}  // namespace

}  // namespace pith::test

#include "model/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace pith {
namespace {

TEST(FindInvalidUtf8, AcceptsEveryLength) {
  EXPECT_FALSE(find_invalid_utf8(""));
  EXPECT_FALSE(find_invalid_utf8(std::string_view("a\0b", 3)));
  EXPECT_FALSE(find_invalid_utf8("\x7f \xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80"));
  EXPECT_FALSE(find_invalid_utf8("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
}

TEST(FindInvalidUtf8, NamesTheOffset) {
  for (const char* bad : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                          "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xe2\x82z"}) {
    EXPECT_EQ(find_invalid_utf8(std::string("ok \xc3\xa4 ") + bad), 6U);
  }
}

}  // namespace
}  // namespace pith

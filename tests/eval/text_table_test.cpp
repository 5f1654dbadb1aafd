#include "eval/text_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pith {
namespace {

TEST(TextTable, LinesUpColumns) {
  TextTable table({"name", "n"}, 1);
  table.add({"a", "12345"});
  table.add({"\xC3\xA9t\xC3\xA9", "7"});  // three columns in five bytes
  EXPECT_EQ(table.text(),
            "name      n\n"
            "-----------\n"
            "a     12345\n"
            "\xC3\xA9t\xC3\xA9       7\n");
}

TEST(TextTable, Numbers) {
  EXPECT_EQ(fixed(1.25, 1), "1.2");
  EXPECT_EQ(fixed(std::nan(""), 2), "-");
  EXPECT_EQ(significant(0.000123456, 3), "0.000123");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(3.0 * 1024 * 1024), "3.0 MiB");
  EXPECT_EQ(bytes_text(2.0 * 1024 * 1024 * 1024), "2.0 GiB");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace pith

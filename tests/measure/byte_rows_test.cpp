#include "measure/byte_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace pith::test {
namespace {

using measure::ByteRows;
using measure::RowMatrix;

/// Rows whose 64 columns each are of very different sizes; the third is zero.
RowMatrix<float> some_rows(int rows, int columns) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  RowMatrix<float> out(rows, columns);
  for (int i = 0; i < rows; ++i) {
    float size = 1;
    for (int c = 0; c < columns; ++c) {
      if (c % 64 == 0) size = std::exp(3 * normal(random));
      out(i, c) = i == 2 ? 0 : size * normal(random);
    }
  }
  return out;
}

TEST(ByteRows, StandForTheirRows) {
  for (const int columns : {1, 63, 64, 65, 130, 640}) {
    const RowMatrix<float> rows = some_rows(7, columns);
    const ByteRows bytes(rows);
    ASSERT_GE(bytes.width(), columns);
    ByteRows::Row x = ByteRows::Row::Zero(bytes.width());
    x.head(columns) = some_rows(1, columns).row(0);
    for (int i = 0; i < 7; ++i) {
      // A number is off by at most half a step of its block's 127.
      ByteRows::Row back = ByteRows::Row::Zero(bytes.width());
      bytes.add(i, 2, back);
      for (int c = 0; c < columns; ++c) {
        const int first = c / 64 * 64, count = std::min(64, columns - first);
        const float most = rows.row(i).segment(first, count).cwiseAbs().maxCoeff();
        EXPECT_NEAR(back[c] / 2, rows(i, c), most * 0.501F / 127) << columns;
      }
      // The rest agrees with what the rounded row is.
      EXPECT_NEAR(bytes.squared_norm(i), back.squaredNorm() / 4, 1e-4F * back.squaredNorm());
      const float size = x.cwiseAbs().dot(back.cwiseAbs());
      EXPECT_NEAR(bytes.dot(i, x), x.dot(back) / 2, 1e-5F * size);
    }
  }
}

/// Numbers too small to divide by, too large to square, and no numbers stay in their rows.
TEST(ByteRows, OddNumbersAreKeptApart) {
  RowMatrix<float> rows = some_rows(5, 130);
  rows.row(0).setConstant(1e-41F);
  rows(1, 70) = std::numeric_limits<float>::quiet_NaN();
  rows.row(3).setConstant(3e38F);
  const ByteRows bytes(rows);
  EXPECT_EQ(bytes.squared_norm(0), 0);
  ByteRows::Row x = ByteRows::Row::Constant(bytes.width(), 1);
  EXPECT_NEAR(bytes.dot(4, x), rows.row(4).sum(), 0.01F * rows.row(4).cwiseAbs().sum());
  std::vector<float> gain(5, 0);
  bytes.gains(std::vector<int>{0, 4}, x, gain);
  EXPECT_EQ(gain[0], 0);
  EXPECT_TRUE(std::isfinite(gain[4]));
}

TEST(ByteRows, GainsAreCosinesOfRoundedVectors) {
  for (const int columns : {5, 64, 200}) {
    const RowMatrix<float> rows = some_rows(9, columns);
    const ByteRows bytes(rows);
    ByteRows::Row x = ByteRows::Row::Zero(bytes.width());
    x.head(columns) = some_rows(1, columns).row(0) + ByteRows::Row::Constant(columns, 0.1F);
    std::vector<float> gain(9, -7);
    const std::vector<int> some{0, 2, 3, 8};
    bytes.gains(some, x, gain);
    for (const int i : some) {
      const float norm = rows.row(i).norm();
      const float expected = norm > 0 ? rows.row(i).dot(x.head(columns)) / norm : 0;
      EXPECT_NEAR(gain[size_t(i)], expected, 0.01F * x.norm()) << columns << " " << i;
    }
    EXPECT_EQ(gain[1], -7);
    EXPECT_EQ(gain[2], 0);
    bytes.gains(some, ByteRows::Row::Zero(bytes.width()), gain);
    for (const int i : some) EXPECT_EQ(gain[size_t(i)], 0);
  }
}

}  // namespace
}  // namespace pith::test

#include "policy/future.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pith {
namespace {

using Positions = std::vector<int32_t>;
using Places = std::vector<int>;

TEST(FuturePositions, GoEvenlyFromAnEighthToTheEnd) {
  EXPECT_EQ(future_positions(1), (Positions{0}));
  EXPECT_EQ(future_positions(9), (Positions{1, 2, 3, 4, 5, 6, 7, 8}));
  const Positions many = future_positions(1016);  // from 127 on, 888 / 127 apart
  ASSERT_EQ(many.size(), 128U);
  EXPECT_EQ(many[0], 127);
  EXPECT_EQ(many[1], 133);
  EXPECT_EQ(many[2], 140);
  EXPECT_EQ(many[127], 1015);
}

TEST(NearestPlaces, OfWhatWasObservedAreItsOwn) {
  Positions all(500);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(nearest_places(all, Positions{3, 4, 499}), (Places{3, 4, 499}));
  EXPECT_EQ(nearest_places(Positions{3, 8, 9}, Positions{3, 8, 9}), (Places{0, 1, 2}));
}

TEST(NearestPlaces, TakeTheEarlierOfTwoAndEachOnce) {
  const Positions observed{10, 14, 30};
  EXPECT_EQ(nearest_places(observed, Positions{0, 12, 13, 14, 22, 23, 99}), (Places{0, 1, 2}));
  EXPECT_EQ(nearest_places(observed, Positions{12}), (Places{0}));
  EXPECT_EQ(nearest_places(observed, Positions{22}), (Places{1}));
  EXPECT_EQ(nearest_places(Positions{}, Positions{1}), Places{});
}

}  // namespace
}  // namespace pith

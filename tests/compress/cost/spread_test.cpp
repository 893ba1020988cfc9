#include "compress/cost/spread.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::spread_test {
namespace {

TEST(Spread, OverlapsWhereBothHaveANumber) {
  const Spread spread{1, 2};
  EXPECT_TRUE(spread.overlaps({2, 3}));
  EXPECT_TRUE(spread.overlaps({0, 1}));
  EXPECT_TRUE(spread.overlaps({1.25, 1.5}));
  EXPECT_TRUE(spread.overlaps({0, 9}));
  EXPECT_FALSE(spread.overlaps({2.5, 3}));
  EXPECT_FALSE(spread.overlaps({0, 0.5}));
}

TEST(MedianOf, IsTheMiddleSample) {
  EXPECT_EQ(median_of({7}), 7);
  EXPECT_EQ(median_of({9, 1, 5}), 5);
  EXPECT_EQ(median_of({4, 1, 3, 2}), 3);
  EXPECT_THROW(median_of({}), InvalidArgument);
}

TEST(MiddleHalf, LeavesOutWhatIsFarOff) {
  EXPECT_EQ(middle_half({7}), (Spread{7, 7}));
  EXPECT_EQ(middle_half({4, 1, 3, 2}), (Spread{1, 4}));
  EXPECT_EQ(middle_half({100, 2, 3, 4, 0}), (Spread{2, 4}));
  EXPECT_EQ(middle_half({9, 8, 7, 6, 5, 4, 3, 2, 1}), (Spread{3, 7}));
  EXPECT_THROW(middle_half({}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::spread_test

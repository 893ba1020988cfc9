#include "trainers/optim/flat_range.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace terngrad::flat_range_test {
namespace {

TEST(FlatRange, RangesAreAsFewAsTheTensorsAllow) {
  Layout layout;
  for (const std::int64_t size : {3, 16, 0, 17, 5}) layout.add(std::to_string(layout.num_segments()), {size});
  const auto ranges = [&](const std::vector<int>& segments) { return ranges_of(layout, segments); };
  EXPECT_EQ(ranges({0, 1, 2, 3, 4}), (std::vector<FlatRange>{whole_range(layout)}));
  EXPECT_EQ(whole_range(layout), (FlatRange{0, 16 + 16 + 32 + 16}));
  EXPECT_EQ(ranges({0, 2, 3}), (std::vector<FlatRange>{{0, 16}, {32, 32}}));
  EXPECT_EQ(ranges({1, 3}), (std::vector<FlatRange>{{16, 48}}));
  EXPECT_EQ(range_of(layout.segment(3)), (FlatRange{32, 32}));
  EXPECT_EQ(ranges({2}), (std::vector<FlatRange>{}));
}

}  // namespace
}  // namespace terngrad::flat_range_test

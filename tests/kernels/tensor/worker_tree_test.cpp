#include "kernels/tensor/worker_tree.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::worker_tree_test {
namespace {

TEST(TreeSplit, IsTheLargestPowerOfTwoBelow) {
  const std::vector<int> expected_splits = {1, 2, 2, 4, 4, 4, 4, 8, 8};
  for (int m = 2; m <= 10; ++m) EXPECT_EQ(tree_split(m), expected_splits[static_cast<std::size_t>(m - 2)]) << m;
}

/// All ranges [begin, end) of the tree, by definition.
void list_ranges(int begin, int end, std::vector<std::pair<int, int>>& ranges) {
  ranges.emplace_back(begin, end);
  if (end - begin == 1) return;
  int left = 1;
  while (2 * left < end - begin) left *= 2;
  list_ranges(begin, begin + left, ranges);
  list_ranges(begin + left, end, ranges);
}

/// Length of the longest range of the tree that starts at `begin` and ends at or before `end`.
int longest_from(const std::vector<std::pair<int, int>>& ranges, int begin, int end) {
  int longest = 0;
  for (const auto& [first, last] : ranges) {
    if (first == begin && last <= end && last - first > longest) longest = last - first;
  }
  return longest;
}

TEST(SubtreesWithin, AreTheLongestRangesOfTheTree) {
  for (int n = 1; n <= 20; ++n) {
    std::vector<std::pair<int, int>> ranges;
    list_ranges(0, n, ranges);
    for (int first = 0; first <= n; ++first) {
      for (int count = 0; first + count <= n; ++count) {
        std::vector<int> expected;
        for (int at = first; at < first + count; at += expected.back()) {
          expected.push_back(longest_from(ranges, at, first + count));
        }
        EXPECT_EQ(subtrees_within(n, first, count), expected) << first << " + " << count << " of " << n;
      }
    }
  }
}

TEST(SubtreesWithin, OfEvenShardsOfAPowerOfTwoIsOne) {
  EXPECT_EQ(subtrees_within(8, 4, 4), std::vector<int>{4});
  EXPECT_EQ(subtrees_within(8, 0, 8), std::vector<int>{8});
  EXPECT_EQ(subtrees_within(8, 6, 2), std::vector<int>{2});
  EXPECT_EQ(subtrees_within(8, 3, 4), (std::vector<int>{1, 2, 1}));
  EXPECT_EQ(subtrees_within(6, 0, 3), (std::vector<int>{2, 1}));
}

TEST(SubtreesWithin, RefusesWorkersThatAreNone) {
  EXPECT_THROW(subtrees_within(4, -1, 2), InvalidArgument);
  EXPECT_THROW(subtrees_within(4, 2, 3), InvalidArgument);
  EXPECT_THROW(subtrees_within(4, 2, -1), InvalidArgument);
}

TEST(AreSubtrees, HoldsForEverySplitOverProcesses) {
  for (int n = 1; n <= 20; ++n) {
    for (int middle = 0; middle <= n; ++middle) {
      std::vector<int> all = subtrees_within(n, 0, middle);
      const std::vector<int> others = subtrees_within(n, middle, n - middle);
      all.insert(all.end(), others.begin(), others.end());
      EXPECT_TRUE(are_subtrees(all)) << middle << " of " << n;
    }
  }
}

TEST(AreSubtrees, RefusesOtherRanges) {
  EXPECT_FALSE(are_subtrees({}));
  const std::vector<std::vector<int>> none = {{0}, {-1}, {1, 2}, {3, 1}, {2, 3}, {1, 2, 1}, {4, 0}, {0, 4}};
  for (const std::vector<int>& ranges : none) EXPECT_FALSE(are_subtrees(ranges)) << ranges[0];
  const std::vector<std::vector<int>> some = {{1}, {3}, {2, 1}, {2, 2}, {4, 1}, {4, 2, 1}, {1, 1, 2, 3}};
  for (const std::vector<int>& ranges : some) EXPECT_TRUE(are_subtrees(ranges)) << ranges[0];
}

}  // namespace
}  // namespace terngrad::worker_tree_test

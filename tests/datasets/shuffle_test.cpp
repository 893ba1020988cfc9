#include "datasets/shuffle.h"

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace terngrad::shuffle_test {
namespace {

std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t num_examples) {
  std::vector<std::uint32_t> order;
  epoch_permutation(seed, epoch, num_examples, order);
  return order;
}

TEST(Shuffle, EveryLengthIsAPermutation) {
  for (std::int64_t count = 0; count < 300; ++count) {
    std::vector<std::uint32_t> order = permutation(1, 2, count);
    std::sort(order.begin(), order.end());
    std::vector<std::uint32_t> expected(static_cast<std::size_t>(count));
    std::iota(expected.begin(), expected.end(), 0u);
    ASSERT_EQ(order, expected) << count;
  }
}

TEST(Shuffle, DependsOnSeedAndEpochOnly) {
  const auto order = permutation(1, 0, 1000);
  EXPECT_EQ(permutation(1, 0, 1000), order);
  EXPECT_NE(permutation(2, 0, 1000), order);
  EXPECT_NE(permutation(1, 1, 1000), order);
  EXPECT_NE(permutation(std::uint64_t{1} << 32 | 1, 0, 1000), order);
  std::vector<std::uint32_t> reused(7, 3);
  epoch_permutation(1, 0, 1000, reused);
  EXPECT_EQ(reused, order);
}

// Runs must be reproducible across versions, including the order.
TEST(Shuffle, GoldenOrder) {
  EXPECT_EQ(permutation(1, 0, 10), (std::vector<std::uint32_t>{8, 1, 5, 2, 3, 7, 6, 9, 0, 4}));
  EXPECT_EQ(permutation(1, 1, 10), (std::vector<std::uint32_t>{4, 8, 0, 9, 5, 7, 3, 1, 2, 6}));
}

// 24 orders of 4 in 24,000 epochs: chi-square with 23 degrees of freedom exceeds 65.2 with probability 6e-6.
TEST(Shuffle, AllOrdersAreEquallyLikely) {
  std::map<std::vector<std::uint32_t>, int> counts;
  for (std::uint64_t epoch = 0; epoch < 24'000; ++epoch) ++counts[permutation(5, epoch, 4)];
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 65.2);
}

TEST(Shuffle, RefusesImpossibleArguments) {
  std::vector<std::uint32_t> order;
  EXPECT_THROW(epoch_permutation(1, 0, -1, order), InvalidArgument);
  EXPECT_THROW(epoch_permutation(1, 0, kMaxShuffledExamples + 1, order), InvalidArgument);
  EXPECT_THROW(epoch_permutation(1, std::uint64_t{1} << 40, 3, order), InvalidArgument);
}

std::vector<std::uint32_t> window_order(const std::vector<std::int64_t>& sizes, int num_readers, std::int64_t window,
                                        std::uint64_t epoch = 0) {
  std::vector<std::uint32_t> order;
  window_permutation(5, epoch, sizes, num_readers, window, order);
  return order;
}

TEST(WindowPermutation, VisitsEveryExampleOnce) {
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
           {}, {0}, {1}, {0, 5, 0}, {7, 3, 9, 1}, {100, 1, 50, 0, 49}, std::vector<std::int64_t>(40, 3)}) {
    const std::int64_t count = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    for (const int num_readers : {1, 2, 3, 100}) {
      for (const std::int64_t window : {1, 2, 10, 1000}) {
        std::vector<std::uint32_t> order = window_order(sizes, num_readers, window);
        ASSERT_EQ(static_cast<std::int64_t>(order.size()), count);
        EXPECT_EQ(order, window_order(sizes, num_readers, window));
        std::ranges::sort(order);
        for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], i) << num_readers << ", " << window;
      }
    }
  }
}

TEST(WindowPermutation, AWindowOfOneReadsShardsInTurn) {
  // One reader: shards one after the other, each from its first example.
  const std::vector<std::uint32_t> alone = window_order({3, 3, 3}, 1, 1);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(alone[i] % 3, i % 3);
  // Two readers in turns; the third shard starts when one ends.
  const std::vector<std::uint32_t> two = window_order({4, 4, 4}, 2, 1);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(two[i] % 4, i / 2);
    EXPECT_EQ(two[i] / 4, two[i % 2] / 4);
  }
  EXPECT_NE(two[0] / 4, two[1] / 4);
  for (std::size_t i = 8; i < 12; ++i) EXPECT_EQ(two[i] % 4, i - 8);
}

TEST(WindowPermutation, DrawsAnewForEveryEpochAndMovesWithinTheWindow) {
  const std::vector<std::int64_t> sizes(20, 50);
  EXPECT_NE(window_order(sizes, 4, 100, 0), window_order(sizes, 4, 100, 1));
  const std::vector<std::uint32_t> read = window_order(sizes, 4, 1), drawn = window_order(sizes, 4, 100);
  std::vector<std::int64_t> place(read.size());
  for (std::size_t i = 0; i < read.size(); ++i) place[read[i]] = static_cast<std::int64_t>(i);
  double moved = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::int64_t early = place[drawn[i]] - static_cast<std::int64_t>(i);
    ASSERT_LT(early, 100);
    moved += std::abs(static_cast<double>(early));
  }
  // An example stays in the window for 100 draws on average.
  EXPECT_GT(moved / static_cast<double>(drawn.size()), 40);
  EXPECT_LT(moved / static_cast<double>(drawn.size()), 130);
}

TEST(WindowPermutation, BadArgumentsAreRefused) {
  EXPECT_THROW(window_order({1}, 0, 1), InvalidArgument);
  EXPECT_THROW(window_order({1}, 1, 0), InvalidArgument);
  EXPECT_THROW(window_order({-1}, 1, 1), InvalidArgument);
  EXPECT_THROW(window_order({kMaxShuffledExamples, 1}, 1, 1), InvalidArgument);
  EXPECT_THROW(window_order({1}, 1, 1, std::uint64_t{1} << 40), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::shuffle_test

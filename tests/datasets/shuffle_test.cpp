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

// The order is part of what makes runs repeatable over versions.
TEST(Shuffle, GoldenOrder) {
  EXPECT_EQ(permutation(1, 0, 10), (std::vector<std::uint32_t>{8, 1, 5, 2, 3, 7, 6, 9, 0, 4}));
  EXPECT_EQ(permutation(1, 1, 10), (std::vector<std::uint32_t>{4, 8, 0, 9, 5, 7, 3, 1, 2, 6}));
}

// 24 orders of 4 in 24,000 epochs: chi-square with 23 degrees of freedom is above 65.2 with probability 6e-6.
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

}  // namespace
}  // namespace terngrad::shuffle_test

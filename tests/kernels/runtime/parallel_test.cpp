#include "kernels/runtime/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace terngrad::parallel_test {
namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

Ranges ranges_of(int num_threads, std::int64_t count, std::int64_t grain) {
  Ranges ranges;
  std::mutex mutex;
  parallel_for(num_threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ParallelFor, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    for (const std::int64_t grain : {1, 2, 8, 100}) {
      for (const std::int64_t count : {1, 2, 3, 7, 8, 9, 63, 64, 65, 799, 800, 801}) {
        std::int64_t next = 0;
        for (const auto& [begin, end] : ranges_of(threads, count, grain)) {
          ASSERT_EQ(begin, next);
          ASSERT_LT(begin, end);
          next = end;
        }
        ASSERT_EQ(next, count) << threads << " threads, grain " << grain;
      }
    }
  }
}

TEST(ParallelFor, CutsAtMultiplesOfTheGrain) {
  for (const auto& range : ranges_of(4, 1001, 8)) EXPECT_EQ(range.first % 8, 0);
}

TEST(ParallelFor, MakesNearlyEqualRangesAtMostOnePerThread) {
  const Ranges ranges = ranges_of(4, 4000, 10);
  ASSERT_EQ(ranges.size(), 4u);
  for (const auto& [begin, end] : ranges) EXPECT_EQ(end - begin, 1000);
}

TEST(ParallelFor, DoesNothingForNothing) {
  EXPECT_TRUE(ranges_of(4, 0, 1).empty());
  EXPECT_TRUE(ranges_of(1, 0, 1).empty());
}

TEST(ParallelFor, RethrowsTheFirstExceptionByRange) {
  std::atomic<int> ended{0};
  try {
    parallel_for(4, 4, 1, [&](std::int64_t begin, std::int64_t) {
      ++ended;
      if (begin >= 1) throw std::runtime_error(std::to_string(begin));
    });
    FAIL() << "no exception came";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "1");
  }
  EXPECT_EQ(ended, 4);  // all ranges ended before the exception left
}

TEST(ParallelFor, NestsInsideItself) {
  std::atomic<int> calls{0};
  parallel_for(2, 2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(2, 10, 1, [&](std::int64_t a, std::int64_t b) { calls += static_cast<int>(b - a); });
    }
  });
  EXPECT_EQ(calls, 20);
}

TEST(LibraryThreads, CanBeNested) {
  const LibraryThreads outer(2);
  const LibraryThreads inner(1);
}

}  // namespace
}  // namespace terngrad::parallel_test

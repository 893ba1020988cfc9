#include "compress/exchange/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/runtime/errors.h"

namespace terngrad::bucket_plan_test {
namespace {

using ::testing::ElementsAre;

/// Tensors with these numbers of elements, named "0", "1", ...
Layout layout_of(const std::vector<std::int64_t>& sizes) {
  Layout layout;
  for (const std::int64_t size : sizes) layout.add(std::to_string(layout.num_segments()), {size});
  return layout;
}

TEST(PlanBuckets, FillsEachUntilItHoldsEnough) {
  const Layout layout = layout_of({10, 20, 5, 100, 1});
  const std::vector<int> backwards = {4, 3, 2, 1, 0};
  EXPECT_THAT(plan_buckets(layout, backwards, 1),
              ElementsAre(ElementsAre(4), ElementsAre(3), ElementsAre(2), ElementsAre(1), ElementsAre(0)));
  // 4 bytes do not fill a bucket of 5; 100 elements do. 25 elements fill a bucket of 100 bytes exactly.
  EXPECT_THAT(plan_buckets(layout, backwards, 5),
              ElementsAre(ElementsAre(3, 4), ElementsAre(2), ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(plan_buckets(layout, backwards, 100), ElementsAre(ElementsAre(3, 4), ElementsAre(1, 2), ElementsAre(0)));
  EXPECT_THAT(plan_buckets(layout, backwards, 101), ElementsAre(ElementsAre(3, 4), ElementsAre(0, 1, 2)));
  EXPECT_THAT(plan_buckets(layout, backwards, 1 << 20), ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
}

TEST(PlanBuckets, TakesTensorsInTheOrderGiven) {
  const std::vector<int> order = {1, 2, 0};
  EXPECT_THAT(plan_buckets(layout_of({8, 8, 8}), order, 64), ElementsAre(ElementsAre(1, 2), ElementsAre(0)));
}

TEST(PlanBuckets, EmptyTensorsTravelWithOthers) {
  const std::vector<int> order = {0, 1, 2, 3, 4};
  EXPECT_THAT(plan_buckets(layout_of({0, 3, 0, 3, 0}), order, 1), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
  const std::vector<int> both = {1, 0};
  EXPECT_THAT(plan_buckets(layout_of({0, 0}), both, 1), ElementsAre(ElementsAre(0, 1)));
}

TEST(PlanBuckets, HoldEveryTensorOnceForEverySize) {
  const Layout layout = layout_of({832, 32, 51200, 64, 0, 524288, 512, 5120, 10});
  std::vector<int> order(9);
  std::iota(order.rbegin(), order.rend(), 0);
  for (std::int64_t bytes = 1; bytes < std::int64_t{1} << 24; bytes = bytes * 3 + 1) {
    const Buckets buckets = plan_buckets(layout, order, bytes);
    EXPECT_NO_THROW(check_buckets(layout, buckets)) << bytes;
    int after = layout.num_segments();  // tensors of a bucket precede those of the previous bucket
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      std::int64_t held = 0;
      for (const int segment : buckets[bucket]) held += 4 * layout.segment(segment).num_elements;
      if (bucket + 1 < buckets.size()) {
        EXPECT_GE(held, bytes);
      }
      EXPECT_LT(buckets[bucket].back(), after);
      after = buckets[bucket].front();
    }
  }
}

TEST(PlanBuckets, RefusesWhatIsNoOrder) {
  const Layout layout = layout_of({1, 2});
  for (const std::vector<int>& order : {std::vector<int>{0}, {0, 0}, {0, 1, 1}, {0, 2}, {-1, 0}}) {
    EXPECT_THROW(plan_buckets(layout, order, 4), InvalidArgument);
  }
  EXPECT_THROW(plan_buckets(layout, std::vector<int>{0, 1}, 0), InvalidArgument);
}

TEST(CheckBuckets, WantEveryTensorOnce) {
  const Layout layout = layout_of({1, 2, 3});
  EXPECT_NO_THROW(check_buckets(layout, {{2}, {0, 1}}));
  EXPECT_NO_THROW(check_buckets(layout, whole_bucket(layout)));
  EXPECT_NO_THROW(check_buckets({}, whole_bucket({})));
  for (const Buckets& buckets : {Buckets{}, {{0, 1}}, {{0, 1, 2}, {2}}, {{0, 1, 2, 2}}, {{0, 1, 2}, {}}, {{0, 1, 3}}}) {
    EXPECT_THROW(check_buckets(layout, buckets), InvalidArgument);
  }
}

}  // namespace
}  // namespace terngrad::bucket_plan_test

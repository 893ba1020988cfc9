#include "trainers/loop/ready_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::ready_buckets_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ReadyBuckets, ABucketIsReadyWhenAllWorkersAreDoneWithAllOfIt) {
  const Buckets buckets = {{2, 3}, {1}, {0}};
  std::vector<int> ready;
  ReadyBuckets counted(buckets, 2, [&](int bucket) { ready.push_back(bucket); });
  for (const int segment : {3, 2, 1, 3}) counted.mark(segment);
  EXPECT_THAT(ready, IsEmpty());
  counted.mark(2);
  EXPECT_THAT(ready, ElementsAre(0));
  counted.mark(1);
  EXPECT_THAT(ready, ElementsAre(0, 1));
  counted.mark(0);
  EXPECT_FALSE(counted.all_announced());
  counted.mark(0);
  EXPECT_THAT(ready, ElementsAre(0, 1, 2));
  EXPECT_TRUE(counted.all_announced());
}

TEST(ReadyBuckets, MayLackTensors) {
  const Buckets buckets = {{4}, {1}};
  std::vector<int> ready;
  ReadyBuckets counted(buckets, 1, [&](int bucket) { ready.push_back(bucket); });
  EXPECT_THROW(counted.mark(2), InvalidArgument);
  counted.mark(1);
  counted.mark(4);
  EXPECT_THAT(ready, ElementsAre(0, 1));
}

TEST(ReadyBuckets, AreAnnouncedInOrderWhateverIsReadyFirst) {
  const Buckets buckets = {{2}, {1}, {0}};
  std::vector<int> ready;
  ReadyBuckets counted(buckets, 1, [&](int bucket) { ready.push_back(bucket); });
  counted.mark(0);
  counted.mark(1);
  EXPECT_THAT(ready, IsEmpty());
  counted.mark(2);
  EXPECT_THAT(ready, ElementsAre(0, 1, 2));
}

TEST(ReadyBuckets, CountWorkersOfSeveralThreads) {
  const Buckets buckets = {{4, 5}, {3}, {0, 1, 2}};
  for (int round = 0; round < 20; ++round) {
    std::vector<int> ready;
    ReadyBuckets counted(buckets, 4, [&](int bucket) { ready.push_back(bucket); });
    {
      std::vector<std::jthread> workers;
      for (int worker = 0; worker < 4; ++worker) {
        workers.emplace_back([&] {
          for (int segment = 5; segment >= 0; --segment) counted.mark(segment);
        });
      }
    }
    EXPECT_THAT(ready, ElementsAre(0, 1, 2));
  }
}

TEST(ReadyBuckets, RefuseMoreThanThereIs) {
  const Buckets buckets = {{0}, {1}};
  ReadyBuckets counted(buckets, 1, [](int) {});
  EXPECT_THROW(counted.mark(2), InvalidArgument);
  EXPECT_THROW(counted.mark(-1), InvalidArgument);
  counted.mark(1);
  EXPECT_THROW(counted.mark(1), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::ready_buckets_test

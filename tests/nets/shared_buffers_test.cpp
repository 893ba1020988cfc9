#include "nets/shared_buffers.h"

#include <gtest/gtest.h>

namespace terngrad::shared_buffers_test {
namespace {

TEST(SharedBuffers, AChainNeedsTwo) {
  SharedBuffers buffers;
  std::size_t last = buffers.acquire(10);
  for (const std::int64_t size : {500, 2450, 9800, 3920, 15680, 784}) {
    const std::size_t next = buffers.acquire(size);
    EXPECT_NE(next, last);
    buffers.release(last);
    last = next;
  }
  EXPECT_EQ(buffers.size(0), 3920);
  EXPECT_EQ(buffers.size(1), 15680);
  EXPECT_EQ(buffers.num_elements(), 3920 + 15680);
}

TEST(SharedBuffers, TakesTheSmallestThatHoldsOrElseTheLargest) {
  SharedBuffers buffers;
  for (const std::int64_t size : {100, 10, 50}) buffers.acquire(size);
  for (const std::size_t buffer : {0u, 1u, 2u}) buffers.release(buffer);
  EXPECT_EQ(buffers.acquire(40), 2u);
  EXPECT_EQ(buffers.acquire(200), 0u);
  EXPECT_EQ(buffers.size(0), 200);
  EXPECT_EQ(buffers.acquire(11), 1u);
  EXPECT_EQ(buffers.acquire(1), 3u) << "all are taken";
}

TEST(SharedBuffers, AllocateGivesZeros) {
  SharedBuffers buffers;
  buffers.acquire(3);
  buffers.acquire(5);
  buffers.allocate(Device::cpu());
  EXPECT_NE(buffers.data(0), buffers.data(1));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(buffers.data(1)[i], 0);
}

TEST(SharedBuffers, CountTheirElements) {
  SharedBuffers buffers;
  EXPECT_EQ(buffers.num_elements(), 0);
  buffers.release(buffers.acquire(5));
  buffers.acquire(7);  // the free buffer grows
  buffers.acquire(2);
  EXPECT_EQ(buffers.num_elements(), 9);
}

}  // namespace
}  // namespace terngrad::shared_buffers_test

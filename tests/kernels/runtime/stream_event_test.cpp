#include "kernels/runtime/stream_event.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/runtime/pinned_buffer.h"
#include "kernels/tensor/transform.h"
#include "tests/support/cuda_device.h"

namespace terngrad::stream_event_test {
namespace {

using testing::to_device;
using testing::to_host;
using CudaStreamEvent = testing::CudaTest;

constexpr std::size_t kSize = 100003;

std::vector<float> repeated(float value) { return std::vector<float>(kSize, value); }

TEST(StreamEvent, HasComeOnTheCpu) {
  const Stream stream;
  StreamEvent event(stream.device());
  event.record(stream);
  event.hold_back(stream);
  event.wait();
  EXPECT_TRUE(event.has_come());
}

TEST_F(CudaStreamEvent, ThatWasNeverRecordedHasCome) {
  const Stream stream(Device::cuda());
  const StreamEvent event(stream.device());
  EXPECT_TRUE(event.has_come());
  event.wait();
  event.hold_back(stream);
  stream.synchronize();
}

TEST_F(CudaStreamEvent, HoldsBackOtherStreamsInEitherDirection) {
  Stream first(Device::cuda());
  Stream second(Device::cuda());
  StreamEvent of_first(first.device());
  StreamEvent of_second(second.device());
  Buffer<float> values = to_device<float>(repeated(1), first);
  Buffer<float> squares(kSize, second.device());
  float expected = 1;
  for (int turn = 0; turn < 3; ++turn) {
    scale(values.span(), 2.0f, first);
    of_first.record(first);
    of_first.hold_back(second);
    multiply(values.span(), values.span(), squares.span(), second);
    of_second.record(second);
    of_second.hold_back(first);
    of_second.hold_back(first);
    copy<float>(squares.span(), values.span(), first);
    expected = 4 * expected * expected;
  }
  EXPECT_EQ(to_host<float>(values.span(), first), repeated(expected));
}

TEST_F(CudaStreamEvent, IsWhereItWasRecordedLast) {
  Stream first(Device::cuda());
  Stream second(Device::cuda());
  StreamEvent event(first.device());
  Buffer<float> values = to_device<float>(repeated(1), first);
  Buffer<float> squares(kSize, second.device());
  event.record(first);
  scale(values.span(), 2.0f, first);
  event.record(first);
  event.hold_back(second);
  multiply(values.span(), values.span(), squares.span(), second);
  EXPECT_EQ(to_host<float>(squares.span(), second), repeated(4));
}

TEST_F(CudaStreamEvent, TellsTheHostWhenPinnedMemoryMayBeWritten) {
  Stream stream(Device::cuda());
  StreamEvent uploaded(stream.device());
  PinnedBuffer<float> from(kSize, stream.device());
  Buffer<float> first(kSize, stream.device());
  Buffer<float> second(kSize, stream.device());
  std::ranges::fill(from.span(), 7.0f);
  upload<float>(from.span(), first.span(), stream);
  uploaded.record(stream);
  uploaded.wait();
  EXPECT_TRUE(uploaded.has_come());
  std::ranges::fill(from.span(), 8.0f);
  upload<float>(from.span(), second.span(), stream);
  EXPECT_EQ(to_host<float>(first.span(), stream), repeated(7));
  EXPECT_EQ(to_host<float>(second.span(), stream), repeated(8));
}

}  // namespace
}  // namespace terngrad::stream_event_test

#include "kernels/runtime/stream_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/cuda_device.h"

namespace terngrad::stream_timer_test {
namespace {

using CudaStreamTimer = testing::CudaTest;

TEST(StreamTimer, MeasuresTheClockOnTheCpu) {
  const Stream stream;
  StreamTimer timer(Device::cpu());
  timer.start(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  timer.stop(stream);
  EXPECT_GE(timer.seconds(), 0.02);
  EXPECT_LT(timer.seconds(), 20);
}

TEST_F(CudaStreamTimer, MeasuresTheStreamOnAGpu) {
  Stream stream(Device::cuda());
  Buffer<int> values(1 << 20, Device::cuda());
  StreamTimer timer(Device::cuda());
  timer.start(stream);
  fill_zero(values.span(), stream);
  timer.stop(stream);
  EXPECT_GT(timer.seconds(), 0);
  EXPECT_LT(timer.seconds(), 20);
}

}  // namespace
}  // namespace terngrad::stream_timer_test
